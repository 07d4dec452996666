"""Ranks that the kernel says are stopped."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from cotenant_worker.host.procfs import is_stopped
from cotenant_worker.supervision.messages import RankStopped
from cotenant_worker.supervision.stopped_ranks import StoppedRanks
from tests.support.pod_sandbox import until


@pytest.fixture
def pid() -> Iterator[int]:
    """The pid of a process whose name is hard to parse."""
    code = "import sys; open('/proc/self/comm', 'w').write('a) T (b'); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


def test_a_rank_that_stays_stopped_is_said_once_and_one_that_goes_on_is_not(pid: int) -> None:
    told: list[RankStopped] = []
    ranks = StoppedRanks(lambda: [(3, 1, pid)], told.append, timeout_s=10.0)

    def after(*times: float) -> list[RankStopped]:
        for now in times:
            ranks.check(now)
        return told

    assert after(0.0) == []
    os.kill(pid, signal.SIGSTOP)
    until(lambda: is_stopped(pid), 60, "the kernel")
    assert after(1.0, 10.9) == []
    assert after(11.0, 12.0) == [RankStopped(3, 1, 10.0)]
    os.kill(pid, signal.SIGCONT)
    until(lambda: not is_stopped(pid), 60, "the kernel")
    assert after(13.0, 30.0) == [RankStopped(3, 1, 10.0)]


def test_what_has_ended_is_not_stopped(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_stopped(pid), 60, "its end")
