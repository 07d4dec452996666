"""A process that has used an object store ends as its program says, and nothing of the store outlives it.

With the asynchronous calls of obstore one process in 150 was aborted at its end (SIGABRT, exit code 134): a thread of
the compiled client called into an interpreter that was going away.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from cotenant_local.host.patience import stretched

pytestmark = pytest.mark.s3

SAVES = """
import sys, threading
from cotenant_worker.checkpoints import fsspec_store

def fill(folder):
    for shard in range(8):
        (folder / str(shard)).write_bytes(b"x" * 100_000)

url = f"s3://runs/{sys.argv[1]}"
fsspec_store.save(url, 1, fill, meta={}, keep=1)
assert fsspec_store.latest(url).step == 1
print(sorted(thread.name for thread in threading.enumerate()), "asyncio" in sys.modules and fsspec_store_loops())
"""
LOOPS = """
def fsspec_store_loops():
    import fsspec.asyn
    return fsspec.asyn.loop != [None]
"""


@pytest.mark.parametrize("number", range(10))
def test_a_process_that_saved_just_before_its_end_is_not_aborted(bucket: str, number: int) -> None:
    command = [sys.executable, "-c", LOOPS + SAVES, str(number)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=stretched(60))
    assert done.returncode == 0, done.stderr
    assert done.stdout in {"['MainThread'] False\n"}, "a thread or an event loop that could call into the interpreter"
