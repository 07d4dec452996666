"""The Standard Workload Format."""

from __future__ import annotations

import pytest

from cotenant.simulator.traces.swf import read_swf
from cotenant.simulator.traces.trace import TraceError, TraceJob

HEADER = ["; Version: 2.2\n", "; UnixStartTime: 1000000\n", ";\n", "\n"]


def test_a_job_of_18_numbers_asks_for_processors_and_declares_a_time() -> None:
    trace = read_swf(
        [
            *HEADER,
            "2 20 5 100 4 -1 -1 8 3600 -1 1 3 1 1 2 -1 -1 -1\n",
            "1 10 5 50 4 -1 -1 -1 -1 -1 1 -1 1 1 -1 -1 -1 -1\n",
            "3 30 -1 -1 -1 -1 -1 2 60 -1 5 3 1 1 2 -1 -1 -1\n",
        ]
    )
    assert trace.jobs == (
        TraceJob(name="job-1", submitted_at=1_000_010.0, duration_s=50.0, gpus=4),
        TraceJob(
            name="job-2",
            submitted_at=1_000_020.0,
            duration_s=100.0,
            gpus=8,
            queue="queue-2",
            user="user-3",
            declared_s=3600,
        ),
    )
    assert trace.notes == (
        "a processor of the SWF trace counts as one GPU",
        "1 × not used: never ran, or on no processor",
    )


@pytest.mark.parametrize("line", ["1 2 3\n", "a b c d e f g h i j k l m n o p q r\n"])
def test_a_line_that_is_not_18_numbers_is_named(line: str) -> None:
    with pytest.raises(TraceError, match="line 5 of the trace"):
        read_swf([*HEADER, line])


@pytest.mark.parametrize("value", ["", " soon"])
def test_a_time_of_the_header_that_is_none_is_named(value: str) -> None:
    with pytest.raises(TraceError, match="line 1 of the trace has no UnixStartTime"):
        read_swf([f"; UnixStartTime:{value}\n"])
