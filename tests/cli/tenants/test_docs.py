"""Every command line on the page for tenants is one of this program, and those of tenants' verbs do their work."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cotenant import names
from cotenant.cli import main
from cotenant.controller.client.kube import PODS
from tests.cli.tenants.cluster import PlayedCluster
from tests.cli.tenants.test_records import USE, run
from tests.cli.tenants.test_submit import STARTS

PAGE = Path(__file__).parents[3] / "docs" / "tenants.md"
VERBS = {"attach", "drill", "port-forward", "submit", "stop", "resume", "retry", "history", "eff", "cost"}


def commands() -> Iterator[list[str]]:
    """Words behind `kubectl cotenant`, of every line of a shell."""
    for block in re.findall(r"^```(?:sh|console)\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE):
        for line in block.splitlines():
            if found := re.match(r"(?:\$ )?(?:kubectl )?cotenant (.*)", line):
                yield shlex.split(found[1], comments=True)


COMMANDS = list(commands())
JOB = """
apiVersion: cotenant.dev/v1beta1
kind: TrainingJob
metadata: {name: written}
spec: {queue: team-a, gpu: {count: 1}, runtime: {command: ["true"]}}
"""


def pod_of_the_first_rank(job_uid: str) -> dict[str, Any]:
    labels = {names.LABEL_JOB_UID: job_uid, names.LABEL_ATTEMPT: "0"}
    placed = {names.ANNOTATION_PLACEMENT: '{"node": "n1", "ranks": {"0": ["g"]}}'}
    metadata = {"name": "digits-0", "namespace": "red", "labels": labels, "annotations": placed}
    return {"metadata": metadata, "status": {"phase": "Running"}}


def end(cluster: PlayedCluster) -> None:
    """Jobs that are asked to leave end, and submitted jobs succeed."""
    for (kind, _), document in list(cluster.kube._objects.items()):
        if kind.plural == "trainingjobs":
            name = document["metadata"]["name"]
            saved = {"lastCheckpoint": {"step": 131}}
            cluster.becomes(name, phase="Succeeded" if name.startswith("train-") else "Suspended", progress=saved)


def test_the_page_shows_every_verb_of_tenants() -> None:
    assert {words[0] for words in COMMANDS} >= VERBS


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_words_are_understood(words: list[str]) -> None:
    assert main.build_parser().parse_args(words).run


@pytest.mark.parametrize("words", [words for words in COMMANDS if words[0] in VERBS], ids=" ".join)
def test_it_does_what_is_said_beside_it(
    cluster: PlayedCluster, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('hello')")
    (tmp_path / "run.sh").write_text("python train.py\n")
    (tmp_path / "job.yaml").write_text(JOB)
    monkeypatch.setattr("builtins.input", lambda _: "y")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    cluster.answers["/namespaces/red/offers"] = {"items": [{"metadata": {"name": "team-a"}}]}
    cluster.job("digits", status={"phase": "Suspended" if words[0] == "resume" else "Running"},
                suspend=words[0] == "resume")  # fmt: skip
    cluster.job("digits-old", status={"phase": "Failed"})
    cluster.job("digits-long", status={"phase": "Running"}, checkpoint={})
    cluster.kube.put(PODS, pod_of_the_first_rank(cluster.stored("digits")["metadata"]["uid"]))
    monkeypatch.setattr("shutil.which", lambda _: "/bin/kubectl")
    monkeypatch.setattr("os.execv", lambda *_: None)
    cluster.on_sleep = lambda: end(cluster)
    cluster.answers["/namespaces/red/whatifs"] = STARTS
    known: dict[str, Any] = run("digits-old", use=USE)
    cluster.answers |= {"/namespaces/red/runs": {"items": [known]}, "/namespaces/red/runs/digits-old": known}
    assert main.main(words) == 0
