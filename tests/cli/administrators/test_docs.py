"""Command lines on the pages for administrators that ask or change a cluster do their work on one that is played."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from cotenant.cli import main
from tests.cli.administrators.test_audit import QUEUES
from tests.cli.administrators.test_move import PLAN
from tests.cli.queries.test_verbs import QUEUE

DOCS = Path(__file__).parents[3] / "docs"
PAGE = "".join((DOCS / f"{page}.md").read_text() for page in ("administrators", "gpu-nodes", "queues", "fairness"))
VERBS = {"audit", "drain", "gpus", "hold", "move", "nodes", "ps", "queues", "release", "whatif"}
CONNECTED = [f"administrators.{verb}" for verb in ("audit", "drain", "gpus", "hold", "nodes")] + [
    "terminal.object_names"
]
CONNECTED += [f"queries.{verb}" for verb in ("ps", "queues", "cluster_whatif")]
GPU = {"uuid": "GPU", "index": 0, "class": "H100", "memoryMiB": 81920}
RESET = {"state": "Done", "message": "the driver has reset it", "at": "2026-01-02T00:00:00Z"}


class QuietCluster:
    """A node with one GPU that nobody holds, some queues, a job that moves as soon as it is asked to."""

    namespace = "team-a"

    def __init__(self) -> None:
        self.changes: list[str] = []
        self.written: dict[str, Any] = {}
        """Annotations."""

    def get(self, path: str) -> dict[str, Any]:
        if path == "/nodeneeds":
            return {"items": [], "status": {"waiting": 0, "unhelped": {}, "untriedKinds": 0}}
        return {"items": [QUEUE] if path == "/queuetrees" else []}

    def read(self, path: str) -> dict[str, Any]:
        gpu = GPU | {"reset": RESET} if self.changes else GPU
        if "cotenant.dev/drain" in self.written:
            gpu |= {"healthy": self.written["cotenant.dev/drain"] is None, "health": "Drained: why"}
        if "/trainingjobs/" in path:
            return {"metadata": {"uid": "u"}, "status": {"attempts": 1 + len(self.changes), "phase": "Starting"}}
        node = {"metadata": {"name": "NODE"}, "status": {"gpus": [gpu], "holders": []}}
        if "/gpunodes/" in path:
            return node
        return {"items": [node] if path.endswith("/gpunodes") else QUEUES if path.endswith("/queues") else []}

    def post(self, _: str, body: Any) -> dict[str, Any]:
        status: dict[str, Any] = {"waiting": {"before": 0, "after": 0}}
        if "job" in body["spec"]:
            status["move"] = PLAN
        return {"metadata": {"name": body["kind"]}, "status": status}

    def patch(self, path: str, body: Any) -> dict[str, Any]:
        self.changes.append(path)
        self.written |= body.get("metadata", {}).get("annotations", {})
        return {}


def commands() -> list[list[str]]:
    """Words behind `kubectl cotenant`, of lines of shells and of the answers to the ten questions."""
    blocks = "".join(re.findall(r"^```sh\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE))
    lines = re.findall(r"^kubectl cotenant (.*)$", blocks, re.MULTILINE)
    lines += re.findall(r"^\|[^|]*\| `kubectl cotenant ([^`]*)`", PAGE, re.MULTILINE)
    words = dict.fromkeys(tuple(shlex.split(line, comments=True)) for line in lines)
    return [list(one) for one in words if one[0] in VERBS and "-w" not in one]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> QuietCluster:
    quiet = QuietCluster()

    def connect(_: argparse.Namespace, *_more: Any) -> QuietCluster:
        return quiet

    for module in CONNECTED:
        monkeypatch.setattr(f"cotenant.cli.{module}.connect", connect)
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr("builtins.input", lambda _: "y")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    return quiet


def test_the_page_shows_every_verb_of_these() -> None:
    assert {words[0] for words in commands()} == VERBS


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_it_does_its_work(cluster: QuietCluster, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert (main.main(words), capsys.readouterr().out != "") == (0, True)
    acts = words[0] in {"drain", "move"} and "--dry-run" not in words
    changes = words[0] in {"hold", "release"} or "reset" in words or acts
    assert bool(cluster.changes) == changes
