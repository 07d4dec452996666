"""A tenant's program may put anything where its error files lie."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cotenant_worker.host import layout
from cotenant_worker.ranks.error_files import environment_for_errors, error_of
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
    assert (error.type, error.frame, error.time, error.chain) == ("a b [31m", "", 0.0, ())
    assert error.message.startswith("x y\nzzz")
    assert len(error.message) <= 4000
    many = parse(json.dumps(GOOD | {"chain": ["x"] * 1000, "started": 10**400}).encode(), 7)
    assert many is not None
    assert (len(many.chain), many.started) == (8, 0.0)


def test_links_pipes_folders_and_floods_hold_nothing_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTENANT_STATE_DIR", str(tmp_path))
    assert error_of(0, 0, 7) is None
    environment_for_errors(0, 0)
    directory = layout.errors_dir(0, 0)
    (directory / "8.json").symlink_to("/etc/passwd")
    (directory / "9.json").mkdir()
    os.mkfifo(directory / "10.json")
    (directory / ("9" * 200)).touch()
    (directory / "\u0663.json").touch()
    assert error_of(0, 0, 7) is None
    (directory / "7.json").write_text(json.dumps(GOOD))
    assert error_of(0, 0, 7) == RankError("ValueError", "empty", "a.py:1", 5.0, 7, 1.0)


def test_torchs_own_record_counts_where_there_is_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `torch.distributed.elastic.multiprocessing.errors` writes it."""
    monkeypatch.setenv("COTENANT_STATE_DIR", str(tmp_path))
    path = environment_for_errors(0, 0)["TORCHELASTIC_ERROR_FILE"]
    stack = 'Traceback (most recent call last):\n  File "train.py", line 3, in main\n    f()\nValueError: empty\n'
    inner = {"message": "ValueError: empty", "extraInfo": {"py_callstack": stack, "timestamp": "12"}}
    Path(path).write_text(json.dumps({"message": inner}))
    error = error_of(0, 0, 7)
    assert error is not None
    assert (error.type, error.message.splitlines()[0], error.time) == ("ValueError", "empty", 12.0)


def failed(pid: int, at: float, started: float = 0.0) -> RankError:
    return RankError("E", str(pid), "", at, pid, started)


@pytest.mark.parametrize(
    ("errors", "want"),
    [
        pytest.param([], None, id="none"),
        pytest.param([failed(1, 100.0), failed(2, 99.0)], 2, id="a child's that the rank failed by"),
        pytest.param([failed(1, 100.0), failed(2, 50.0)], 1, id="a child's that was survived"),
        pytest.param([failed(1, 100.0, 99.5), failed(2, 99.0)], 1, id="of a process before this one"),
        pytest.param([failed(2, 99.0), failed(3, 98.0)], 3, id="the first of two children's"),
        pytest.param([failed(2, 50.0)], None, id="only a child's, long ago"),
        pytest.param([failed(1, 5.0)], 1, id="the rank's own, however long its end took"),
    ],
)
def test_the_failure_that_ended_the_rank_is_the_first_of_those_that_belong_together(
    errors: list[RankError], want: int | None
) -> None:
    found = first_failure(errors, 1, 100.5)
    assert (found.pid if found else None) == want
