"""`cotenant agent` and `python -m cotenant_agent`: the same program, and its refusals before it has a cluster."""

import os
import subprocess
import sys
from collections.abc import Sequence

import pytest


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if key not in {"NODE_NAME", "KUBECONFIG"}}
    return subprocess.run(
        [sys.executable, "-m", *command],
        env=kept | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("command", [["cotenant", "agent"], ["cotenant_agent"]], ids=["the verb", "the module"])
def test_both_ways_in_show_the_agents_own_options(command: Sequence[str]) -> None:
    ended = run(*command, "--help")
    assert (ended.returncode, ended.stdout.startswith("usage: cotenant agent ")) == (0, True)
    assert "--simulate-file FILE" in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "cotenant agent: give --node NAME (or NODE_NAME) and --listen [ADDRESS]:PORT\n"),
        (["--node", "n1", "--listen", "here"], "cotenant agent: give --node NAME (or NODE_NAME) and --listen"),
    ],
)
def test_what_is_missing_is_named_in_one_line(arguments: Sequence[str], says: str) -> None:
    ended = run("cotenant", "agent", *arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(says)


def test_without_a_cluster_it_says_so(tmp_path: object) -> None:
    ended = run("cotenant_agent", "--node", "n1", "--simulate", HOME=str(tmp_path))
    assert ended.returncode == 2
    assert ended.stderr.startswith("cotenant agent: no cluster: ")
