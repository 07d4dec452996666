"""What /proc says of processes that these tests start."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from cotenant_local.host import procfs


@pytest.fixture
def family() -> Iterator[tuple[int, int]]:
    """A shell and the process that it waits for."""
    with subprocess.Popen(["sh", "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        yield parent.pid, child
        os.kill(child, signal.SIGKILL)


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_descendants_begin_with_the_process_itself(family: tuple[int, int]) -> None:
    assert procfs.descendants(family[0]) == list(family)


def test_a_process_is_named_by_its_start_time_until_it_has_ended() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        began = procfs.start_time(process.pid)
        assert began is not None
        assert began == procfs.start_time(process.pid)
        process.kill()
        until(lambda: procfs.start_time(process.pid) is None)  # a zombie has ended
    assert procfs.start_time(process.pid) is None


def test_a_child_that_is_stopped_counts_for_its_parent(family: tuple[int, int]) -> None:
    parent, child = family
    assert not procfs.any_stopped(parent)
    os.kill(child, signal.SIGSTOP)
    until(lambda: procfs.is_stopped(child))
    assert (procfs.is_stopped(parent), procfs.any_stopped(parent)) == (False, True)
    os.kill(child, signal.SIGCONT)
    until(lambda: not procfs.any_stopped(parent))
