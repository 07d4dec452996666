"""Which process trains for its rank, where a program has several: each of these is one of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cotenant_worker.host import layout

ASKS = (
    "from cotenant_shim.main_process import is_main_process, is_training_process;"
    " print(is_main_process(), is_training_process(), flush=True)"
)


@pytest.fixture
def rank(tmp_path: Path) -> dict[str, str]:
    state = {"COTENANT_STATE_DIR": str(tmp_path), "COTENANT_RESTART": "0", "COTENANT_RANK": "0"}
    return {**os.environ, "PYTHONPATH": str(layout.HOOK_DIR), "RANK": "0", **state}


def ask(rank: dict[str, str]) -> str:
    return subprocess.run([sys.executable, "-c", ASKS], env=rank, capture_output=True, text=True, check=True).stdout


def test_of_the_processes_that_train_one_after_the_other_each_is_followed(rank: dict[str, str]) -> None:
    """A shell line of several programs; or a script that starts a process for each of its folds."""
    assert [ask(rank) for _ in range(3)] == ["True True\n"] * 3


def test_beside_a_process_that_lives_no_other_is_followed(rank: dict[str, str]) -> None:
    command = [sys.executable, "-c", f"{ASKS}; import sys; sys.stdin.read()"]
    with subprocess.Popen(command, env=rank, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdin is not None
        assert first.stdout is not None
        assert first.stdout.readline() == "True True\n"
        beside = [ask(rank) for _ in range(2)]
        first.stdin.close()
    assert beside == ["False True\n", "False True\n"]
    assert ask(rank) == "True True\n"
