"""`cotenant local …`: what its arguments come to. No cluster is touched."""

import os
from pathlib import Path
from typing import Any

import pytest

from cotenant.cli.main import main
from cotenant_local.cli import extra
from cotenant_local.cluster import lifecycle, spec


class Cluster:
    """A cluster that only keeps what is asked of it."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.kubeconfig = Path("/state/kubeconfig")

    def api_faults(self, **faults: Any) -> None:
        self.asked.append(faults)

    def node(self, fault: str, name: str) -> None:
        self.asked.append((fault, name))

    def command(self, program: str, *arguments: str) -> list[str]:
        return [f"/bin/{program}", *arguments]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    found = Cluster()
    monkeypatch.setattr(extra, "require", lambda: None)
    monkeypatch.setattr(lifecycle, "find", lambda name: found if name == "default" else pytest.fail(name))
    return found


@pytest.mark.parametrize(
    ("arguments", "faults"),
    [
        ([], {}),
        (["--latency-ms", "50", "--seed", "0"], {"latency_ms": 50, "seed": 0}),
        (["--error-rate", "0.5", "--error-codes", "429,500"], {"error_rate": 0.5, "error_codes": ["429", "500"]}),
        (["--only-user-like", "cotenant-operator"], {"only_user_like": "cotenant-operator"}),
    ],
)
def test_only_the_faults_that_are_given_reach_the_api_server(
    cluster: Cluster, arguments: list[str], faults: dict[str, Any]
) -> None:
    assert main(["local", "faults", *arguments]) == 0
    assert cluster.asked == [faults]


def test_a_node_fails_as_it_is_asked_to(cluster: Cluster) -> None:
    assert main(["local", "node", "freeze", "node-2"]) == 0
    assert cluster.asked == [("freeze", "node-2")]
    with pytest.raises(SystemExit):
        main(["local", "node", "burn", "node-2"])


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (["kubectl", "get", "pods"], ["/bin/kubectl", "get", "pods"]),
        (["kubectl", "--", "get", "-A", "pods"], ["/bin/kubectl", "get", "-A", "pods"]),
        (["kubectl", "--", "exec", "p", "--", "ls"], ["/bin/kubectl", "exec", "p", "--", "ls"]),
        (["helm", "list"], ["/bin/helm", "list"]),
    ],
)
def test_a_tool_gets_the_arguments_behind_its_name_as_they_are(
    cluster: Cluster, arguments: list[str], command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run: list[tuple[str, list[str]]] = []

    def execv(program: str, words: list[str]) -> None:
        run.append((program, words))
        raise SystemExit(0)

    monkeypatch.setattr(os, "execv", execv)
    with pytest.raises(SystemExit):
        main(["local", *arguments])
    assert run == [(command[0], command)]


def test_the_nodes_are_uniform_unless_a_file_says_otherwise(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted: list[Any] = []

    def up(name: str, nodes: Any, *, keep_in: Path | None) -> Cluster:
        wanted.append((name, nodes, keep_in))
        return cluster

    monkeypatch.setattr(lifecycle, "up", up)
    file = tmp_path / "nodes.yaml"
    file.write_text("nodes: [{count: 2, gpus: 1}]\n")
    monkeypatch.setattr(spec, "load", lambda path: path)
    assert main(["local", "up", "--nodes", "3", "--gpus", "8"]) == 0
    assert main(["local", "up", "--name", "own", "--config", str(file), "--state", str(tmp_path)]) == 0
    assert wanted == [
        ("default", spec.uniform(3, 8, "H100", "80Gi"), None),
        ("own", file, tmp_path),
    ]
    assert capsys.readouterr().out == "/state/kubeconfig\n" * 2


def test_all_clusters_go_down_and_one_that_was_not_up_is_no_error(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lifecycle, "known", lambda: ["a", "b"])
    monkeypatch.setattr(lifecycle, "down", lambda name: name == "a")
    assert [main(["local", "down", "--all"]), main(["local", "down", "--name", "c"])] == [0, 0]
    assert capsys.readouterr().err.splitlines() == [
        "cluster a is down", "cluster b is down", "cluster c was not up",
    ]  # fmt: skip
