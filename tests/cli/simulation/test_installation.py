"""`cotenant simulate` as a person calls it: with whose settings does it decide?"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from cotenant.cli.main import main
from tests.simulator.worlds import gpu_node, job, queue

PROTECTED = {"name": "COTENANT_PROTECTED_RUNTIME_S", "value": "7200"}


def deployment(*env: dict[str, Any], name: str = "cotenant-operator", args: tuple[str, ...] = ()) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": "cotenant", "app.kubernetes.io/component": "operator"}
    container = {"name": "operator", "command": ["python", "-m", "cotenant", "operator"], "env": list(env)}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "cotenant-system", "labels": labels},
        "spec": {"template": {"spec": {"containers": [container | {"args": list(args)}]}}},
    }


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """A long job runs when an urgent one comes ten minutes later that may evict it."""
    long, urgent = job("long", gpus=1, runs="3600s"), job("urgent", gpus=1, runs="60s", priority=9)
    urgent["metadata"]["creationTimestamp"] = "2026-01-01T00:01:00Z"
    placed: dict[str, Any] = {
        "nodes": [{"node": "node-1", "ranks": [{"rank": 0, "gpus": [{"uuid": "GPU-node-1-0", "memoryMiB": 81920}]}]}]
    }
    placed["nodes"][0]["ranks"][0]["gpus"][0]["computeMilli"] = 1000
    long["status"] = {"phase": "Running", "placement": placed | {"admittedAt": "2026-01-01T00:00:00Z", "workers": 1}}
    file = tmp_path / "world.yaml"
    file.write_text(yaml.safe_dump_all([gpu_node("node-1", 1), queue("a", "1"), long, urgent]))
    return file


def simulated(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["simulate", "-o", "json", *words]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def added(world: Path, *documents: dict[str, Any]) -> str:
    world.write_text(world.read_text() + "---\n" + yaml.safe_dump_all(documents))
    return str(world)


def test_without_an_operator_among_the_documents_the_defaults_decide(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = simulated(capsys, "-f", str(world))
    assert (result["evictions"], result["settings"]) == (1, {})


def test_the_settings_of_the_operator_that_runs_there_decide(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unrelated = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {}}
    taken = {"name": "COTENANT_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}
    result = simulated(capsys, "-f", added(world, unrelated, deployment(PROTECTED, taken)))
    assert (result["evictions"], result["settings"]) == (0, {"protected_runtime_s": 7_200})


@pytest.mark.parametrize("args", [("--protected-runtime-s", "1"), ("--protected-runtime-s=1",)])
def test_flags_of_the_operator_win_over_its_environment(
    world: Path, capsys: pytest.CaptureFixture[str], args: tuple[str, ...]
) -> None:
    result = simulated(capsys, "-f", added(world, deployment(PROTECTED, args=args)))
    assert (result["evictions"], result["settings"]) == (1, {"protected_runtime_s": 1})


@pytest.mark.parametrize("values", [{"operator": {"settings": {"protected_runtime_s": 7_200}}}, {"moves": 0}])
def test_a_file_of_settings_wins_over_the_operator(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], values: dict[str, Any]
) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    one_second = {"name": "COTENANT_PROTECTED_RUNTIME_S", "value": "1"}
    result = simulated(capsys, "-f", added(world, deployment(one_second)), "--settings", str(file))
    expected = (0, {"protected_runtime_s": 7_200}) if "operator" in values else (1, {"moves": 0})
    assert (result["evictions"], result["settings"]) == expected


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"protected_runtime": 600}, "unknown setting: protected_runtime"),
        ({"operator": {"settings": {"tick_s": "soon"}}}, "COTENANT_TICK_S='soon' is not a float"),
        (["moves"], "an object"),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], values: object, words: str
) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    assert main(["simulate", "-f", str(world), "--settings", str(file)]) == 1
    assert words in capsys.readouterr().err


def test_two_operators_are_one_too_many(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "-f", added(world, deployment(), deployment(name="other"))]) == 1
    assert "cotenant-system/cotenant-operator and Deployment cotenant-system/other" in capsys.readouterr().err
