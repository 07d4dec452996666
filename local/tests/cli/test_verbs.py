"""The verbs that come by entry points: there beside the operator's own, and refused where their extra is missing."""

from pathlib import Path

import pytest

from cotenant.cli.main import build_parser, main
from cotenant_local.cli import extra


@pytest.mark.parametrize(
    ("program", "verbs"),
    [
        (
            "cotenant",
            [
                "advise",
                "agent",
                "attach",
                "audit",
                "capsule",
                "replay",
                "clusters",
                "completions",
                "cost",
                "crds",
                "dashboard",
                "demo",
                "doctor",
                "drain",
                "drill",
                "eff",
                "gpus",
                "history",
                "hold",
                "release",
                "local",
                "logs",
                "mcp",
                "migrate",
                "move",
                "nodes",
                "offer",
                "operator",
                "plugin",
                "port-forward",
                "ps",
                "queues",
                "quota",
                "resume",
                "retry",
                "session",
                "showback",
                "simulate",
                "stop",
                "submit",
                "sweep",
                "top",
                "validate",
                "whatif",
                "why",
            ],
        ),
        (
            "kubectl cotenant",
            [
                "advise",
                "attach",
                "audit",
                "capsule",
                "replay",
                "clusters",
                "completions",
                "cost",
                "dashboard",
                "doctor",
                "drain",
                "drill",
                "eff",
                "gpus",
                "history",
                "hold",
                "release",
                "logs",
                "mcp",
                "migrate",
                "move",
                "nodes",
                "offer",
                "port-forward",
                "ps",
                "queues",
                "quota",
                "resume",
                "retry",
                "session",
                "showback",
                "simulate",
                "stop",
                "submit",
                "sweep",
                "top",
                "validate",
                "whatif",
                "why",
            ],
        ),
    ],
)
def test_the_verbs_are_listed_in_order_and_kubectl_offers_those_of_a_clusters_users(
    program: str, verbs: list[str]
) -> None:
    lines = build_parser(program).format_help().splitlines()
    of_verbs = [line for line in lines[lines.index("verbs:") + 2 :] if line[4] != " "]  # what is longer goes on below
    assert [line.split()[0] for line in of_verbs] == verbs


@pytest.mark.parametrize("arguments", [["local", "status"], ["local", "up"], ["demo"]], ids=" ".join)
def test_without_the_extra_a_verb_names_it(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(extra, "find_spec", lambda name: None if name == "grpc" else object())
    assert main(arguments) == 2
    assert capsys.readouterr().err.endswith(
        ": the local cluster's dependencies are not installed: pip install 'cotenant[local]'\n"
    )


def test_a_refusal_of_the_local_cluster_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert main(["local", "status", "--name", "absent"]) == 1
    error = capsys.readouterr().err
    assert "there is no cluster 'absent' up (up are: none)" in error
    assert "Traceback" not in error
