"""What other processes see of one that shows another command line."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

LOOK = """
import json, os, pathlib, subprocess, sys
from cotenant_worker.host import process_title
{call}
own = pathlib.Path("/proc/self")
child = subprocess.run([sys.executable, "-c", "import os; print(os.environ['KEPT'])"], capture_output=True, text=True)
print(json.dumps([
    (own / "cmdline").read_text().split("\\0")[:-1],
    [line for line in (own / "environ").read_text().split("\\0") if line.startswith(("KEPT", "RANK"))],
    (own / "comm").read_text().strip(),
    child.stdout.strip(),
]))
"""


def seen(call: str) -> tuple[list[str], list[str], str, str]:
    done = subprocess.run(
        [sys.executable, "-P", "-c", LOOK.format(call=call), "more"],
        env={"KEPT": "yes", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    words, variables, name, inherited = json.loads(done.stdout)
    return words, variables, name, inherited


def test_a_rank_shows_the_command_and_the_variables_of_its_program() -> None:
    show = "process_title.show_as_program(['python', 'train.py', 'é'], {'RANK': '3'})"
    words, variables, name, inherited = seen(show)
    if words[0] == sys.executable:
        pytest.skip("this kernel has no PR_SET_MM_MAP")
    assert (words, variables, inherited) == (["python", "train.py", "é"], ["RANK=3"], "yes")
    assert name.startswith("python")


def test_a_process_of_ours_is_not_found_by_those_who_look_for_python() -> None:
    words, variables, name, inherited = seen("process_title.show_as_ours('cotenant-long-name')")
    assert (name, inherited) == ("cotenant-long-n", "yes")
    if words[0] == sys.executable:
        pytest.skip("this kernel has no PR_SET_MM_MAP")
    assert (words[:3], words[-1], variables) == (["cotenant", "-P", "-c"], "more", ["KEPT=yes"])
