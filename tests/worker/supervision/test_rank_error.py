"""What a tenant's program left as its error is bounded, plain and finite."""

import json
from dataclasses import replace
from typing import Any

import pytest

from cotenant_worker.supervision.rank_error import MAX_BYTES, RankError, first_failure, parse

GOOD: dict[str, Any] = {"type": "ValueError", "message": "empty", "frame": "a.py:1", "time": 5.0, "started": 1.0}


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xff\xfe{", id="no text"),
        pytest.param(b"[" * MAX_BYTES, id="very deep"),
        pytest.param(b'"' + b"x" * MAX_BYTES + b'"', id="too large"),
        pytest.param(b"[1]", id="a list"),
        pytest.param(b'{"message": 3}', id="neither ours nor torch's"),
        pytest.param(b'{"message": {"message": {}}}', id="torch's without a text"),
    ],
)
def test_what_is_no_error_file_is_none(data: bytes) -> None:
    assert parse(data, 7) is None


def test_fields_are_bounded_plain_and_finite() -> None:
    hostile = GOOD | {
        "type": "a\nb\x1b[31m",
        "message": "x\x00y\n" + "z" * 10**4,
        "frame": 3,
        "time": "nan",
        "chain": 7,
    }
    error = parse(json.dumps(hostile).encode(), 7)
    assert error is not None
    assert (error.type, error.frame, error.time, error.chain) == ("a b", "", 0.0, ())
    assert error.message.startswith("x y\nzzz")
    assert len(error.message) <= 4000
    many = parse(json.dumps(GOOD | {"chain": ["x"] * 1000, "started": 10**400}).encode(), 7)
    assert many is not None
    assert (len(many.chain), many.started) == (8, 0.0)


def failed(pid: int, at: float, started: float = 0.0) -> RankError:
    return RankError("E", str(pid), "", at, pid, started)


LOST = RankError("RuntimeError", "[gloo/pair.cc:561] Connection closed by peer [127.0.0.1]:20887", "", 98.0, 4, 0.0)

TORCHRUN_LATE = replace(failed(1, 100.4), message="train.py FAILED\n  exitcode  : 1 (pid: 2)\n  error_file: <N/A>")


@pytest.mark.parametrize(
    ("errors", "want"),
    [
        pytest.param([], None, id="none"),
        pytest.param([LOST, failed(3, 99.0), failed(1, 100.0)], 3, id="of a child whose loss another told first"),
        pytest.param([LOST, replace(LOST, pid=1, time=99.0)], 4, id="all blame a peer"),
        pytest.param([failed(1, 100.0), failed(2, 99.0)], 2, id="a child's that the rank failed by"),
        pytest.param([failed(1, 100.0), failed(2, 50.0)], 1, id="a child's that was survived"),
        pytest.param([failed(1, 100.0, 99.5), failed(2, 99.0)], 1, id="of a process before this one"),
        pytest.param([failed(2, 99.0), failed(3, 98.0)], 3, id="the first of two children's"),
        pytest.param([failed(2, 50.0)], None, id="only a child's, long ago"),
        pytest.param([failed(1, 5.0)], 1, id="the rank's own, however long its end took"),
        pytest.param(
            [failed(1, 100.0), failed(2, 60.0), failed(3, 50.0), TORCHRUN_LATE],
            2,
            id="of the child that torchrun names, however late",
        ),
    ],
)
def test_the_failure_that_ended_the_rank_is_the_first_of_those_that_belong_together(
    errors: list[RankError], want: int | None
) -> None:
    found = first_failure(errors, 1, 100.5)
    assert (found.pid if found else None) == want


@pytest.mark.parametrize(
    ("errors", "want"),
    [
        pytest.param([replace(failed(2, 50.0), frame="seed.py:3")], 2, id="in the job's code, long ago"),
        pytest.param([failed(2, 50.0)], None, id="elsewhere, as a look for a package"),
        pytest.param([replace(failed(2, 50.0), frame="a.py:1"), failed(3, 99.0)], 3, id="just before the end"),
    ],
)
def test_a_rank_that_ends_well_hides_older_failures_of_the_jobs_code_too(
    errors: list[RankError], want: int | None
) -> None:
    """`for seed in 1 2 3; do python train.py $seed; done`, or `python a.py & python b.py & wait`."""
    found = first_failure(errors, 1, 100.5, succeeded=True)
    assert (found.pid if found else None) == want
