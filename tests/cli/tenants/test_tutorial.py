"""The tutorial, from its own text: every line of `kubectl cotenant` does its work on a cluster that is played."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cotenant.cli import main
from cotenant.cli.terminal.object_names import ObjectName
from tests.cli.tenants.cluster import PlayedCluster
from tests.cli.tenants.test_logs import JOB, Pods
from tests.cli.tenants.test_records import USE, run
from tests.cli.tenants.test_submit import STARTS

PAGE = (Path(__file__).parents[3] / "docs" / "tutorial.md").read_text()
SHELLS = re.findall(r"^```sh\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
[PROGRAM] = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
LINES = [shlex.split(line, comments=True) for block in SHELLS for line in block.splitlines()]
WORDS = [line[2:] for line in LINES if line[:2] == ["kubectl", "cotenant"]]
ASKED = {"offer", "submit", "ps", "why", "whatif", "logs", "stop", "resume", "history", "eff", "cost"}
ASKS = {"queue": "team-a", "asks": "2 GPUs", "submittedAt": "2026-01-01T12:00:00Z"}
OFFER = {"class": "H100", "guaranteed": 2, "borrowable": 0, "largestGang": 2, "onOneNode": 2, "largestShare": "1"}


def explained(name: str, **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "red"}, "status": {**ASKS, **status}}


@pytest.fixture
def demo(cluster: PlayedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlayedCluster:
    """The cluster of the first step, in the folder of the third: what is asked to leave, leaves; what waits, starts."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(PROGRAM)
    for verb in ("offer", "ps", "whatif"):
        monkeypatch.setattr(f"cotenant.cli.queries.{verb}.connect", lambda *_: cluster)
    second = explained("second", standing="Waiting", reason="WaitingForGPUs", message="2 of 2 GPUs are in use.")
    over = run("second", use=USE)
    cluster.answers |= {
        "/namespaces/red/offers": {"items": [{"metadata": {"name": "team-a"}, "status": {"classes": [OFFER]}}]},
        "/namespaces/red/whatifs": STARTS,
        "/namespaces/red/explanations": {"items": [explained("first", standing="Running"), second]},
        "/namespaces/red/explanations/second": second,
        "/namespaces/red/explanations/first": explained("first", standing="Waiting", wouldStartIf="it asked for less"),
        "/namespaces/red/runs": {"items": [over]},
        "/namespaces/red/runs/second": over,
    }
    cluster.on_sleep = lambda: cluster.becomes("first", phase="Suspended")
    printing = Pods({"first-0": ([0, 1], [b"[rank 0] step 10 on 2 ranks\n"])})
    job = {**JOB, "metadata": {"name": "first", "namespace": "red", "uid": "u"}}
    of_kind = {"trainingjobs": lambda _: job, "pods": printing.read}
    connection = SimpleNamespace(
        namespace="red",
        read=lambda path: of_kind["trainingjobs" if "/trainingjobs/" in path else "pods"](path),
        stream=printing.stream,
    )
    monkeypatch.setattr("cotenant.cli.tenants.logs.named", lambda _, text: (connection, ObjectName("red", text)))
    return cluster


def test_the_tutorial_asks_with_these_verbs() -> None:
    assert {words[0] for words in WORDS} == ASKED


def test_its_program_runs_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM.replace("time.sleep(1)", "pass"))
    command = [sys.executable, "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "step 180 on 1 ranks"


def test_its_steps_work_one_after_the_other(demo: PlayedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    for words in WORDS:
        if words[0] == "stop":
            demo.becomes("first", phase="Running")
        assert (words, main.main(words)) == (words, 0)
    first, second = (demo.stored(name)["spec"] for name in ("first", "second"))
    assert (first["workers"], first["gpu"], first["suspend"]) == (2, {"count": 1}, False)
    assert second["gpu"] == {"memoryFraction": "0.5"}
    printed = capsys.readouterr().out.splitlines()
    assert "red/second waits in queue team-a for 2 GPUs: WaitingForGPUs" in printed
    assert "[rank 0] step 10 on 2 ranks" in printed
