"""A program that prints an address and goes on, ended with the block that needs it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from cotenant.sdk.errors import RequestRefusedError
from cotenant.sdk.objects.forwarded_port import forwarded

GOES_ON = """
import os, pathlib, subprocess, sys
child = subprocess.Popen(["sleep", "600"])
pathlib.Path(sys.argv[1]).write_text(f"{os.getpid()} {child.pid}")
print("http://127.0.0.1:8888/lab?token=t", flush=True)
print("Forwarding from 127.0.0.1:8888 -> 8888", flush=True)
child.wait()
"""
FORWARDS_NOTHING = """
import sys
print("http://127.0.0.1:8888/lab?token=t", flush=True)
sys.exit("Unable to listen on port 8888")
"""


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_the_address_is_there_while_the_block_runs_and_nothing_is_left_of_it(tmp_path: Path) -> None:
    noted = tmp_path / "pids"
    with forwarded((sys.executable, "-c", GOES_ON, str(noted))) as address:
        assert address == "http://127.0.0.1:8888/lab?token=t"
        pids = [int(pid) for pid in noted.read_text().split()]
        assert all(is_there(pid) for pid in pids)
    assert not is_there(pids[0])


def test_what_cannot_be_opened_says_why() -> None:
    refuses = "import sys; sys.exit('team-a/nb is Suspended: it was idle')"
    with (
        pytest.raises(RequestRefusedError, match="team-a/nb is Suspended: it was idle"),
        forwarded((sys.executable, "-c", refuses)),
    ):
        raise AssertionError("the block does not run")


def test_an_address_that_nothing_was_forwarded_to_says_why() -> None:
    with (
        pytest.raises(RequestRefusedError, match="Unable to listen on port 8888"),
        forwarded((sys.executable, "-c", FORWARDS_NOTHING)),
    ):
        raise AssertionError("the block does not run")
