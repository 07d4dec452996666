"""`cotenant agent` and `python -m cotenant_agent`: the same program, and its refusals before it has a cluster."""

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest
from kubernetes.client.exceptions import ApiException

from cotenant_agent import main
from cotenant_agent.gpus.readings import GpuInventory, GpuSourceError
from cotenant_agent.gpus.simulated import SimulatedSource
from cotenant_agent.reports import unreadable_gpus


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
    assert "--runtime-class RUNTIME_CLASS" in ended.stdout


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


NO_GPUS = '{"class": "none", "memory": "1Mi", "count": 0}'


@pytest.mark.parametrize(
    ("metadata", "want"),
    [
        pytest.param({}, NO_GPUS, id="no annotations"),
        pytest.param({"annotations": None}, NO_GPUS, id="null"),
        pytest.param({"annotations": {"cotenant.dev/simulated-gpus": ""}}, NO_GPUS, id="an empty one"),
        pytest.param({"annotations": {"cotenant.dev/simulated-gpus": "{}"}}, "{}", id="as it is written"),
    ],
)
def test_a_node_without_the_annotation_has_no_simulated_gpus(metadata: dict[str, Any], want: str) -> None:
    cluster: Any = SimpleNamespace(node=lambda: {"metadata": metadata})
    assert main.simulated_annotation(cluster) == want


def test_a_node_that_cannot_be_read_is_an_error_of_its_gpus() -> None:
    def refuse() -> None:
        raise ApiException(status=403, reason="Forbidden")

    cluster: Any = SimpleNamespace(node=refuse)
    with pytest.raises(GpuSourceError, match=r"^the Node cannot be read: HTTP 403 Forbidden$"):
        main.simulated_annotation(cluster)


class Reading:
    """A source that returns its number of reads, at a clock that a test moves; it can fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.reads = 0
        self.failing = False
        monkeypatch.setattr("time.monotonic", lambda: self.now)

    def __call__(self) -> str:
        self.reads += 1
        if self.failing:
            raise GpuSourceError("not now")
        return f"read {self.reads}"


def test_a_source_is_read_once_in_so_many_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(monkeypatch)
    limited = main.rate_limited(10.0, reading)
    found = []
    for at in (0.0, 9.9, 10.0, 19.9, 20.0):
        reading.now = at
        found.append(limited())
    assert found == ["read 1", "read 1", "read 2", "read 2", "read 3"]


def test_a_source_that_fails_has_its_last_result_and_without_one_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(monkeypatch)
    limited = main.rate_limited(10.0, reading)
    reading.failing = True
    with pytest.raises(GpuSourceError, match="not now"):
        limited()
    reading.failing = False
    assert limited() == "read 2"
    reading.failing, reading.now = True, 10.0
    assert limited() == "read 2"


def test_simulated_gpus_are_those_of_the_annotation() -> None:
    document = '{"class": "H100", "memory": "80Gi", "count": 2}'
    args = main.parser().parse_args(["--node", "n1", "--simulate"])
    cluster: Any = SimpleNamespace(
        node=lambda: {"metadata": {"annotations": {"cotenant.dev/simulated-gpus": document}}}
    )
    source = main.open_source(args, cluster)
    assert isinstance(source, SimulatedSource)
    assert [(gpu.gpu_class, gpu.memory_mib) for gpu in source.inventory().gpus] == [("H100", 81920)] * 2


@pytest.mark.parametrize(
    ("simulated", "warned"),
    [(False, True), (True, False)],
    ids=["real GPUs", "simulated ones are of no process"],
)
def test_memory_that_cannot_be_attributed_is_a_line_in_the_log(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, simulated: bool, warned: bool
) -> None:
    args = main.parser().parse_args(["--node", "n1", "--host", str(tmp_path)])
    cluster: Any = SimpleNamespace(node=dict, runtime_class_exists=lambda name: name == "nvidia")
    inventory = GpuInventory(simulated=simulated, gpus=())
    source: Any = SimpleNamespace(inventory=lambda: inventory, can_read_limits=lambda: True)
    observer = main.make_observer(args, cluster, source)
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    text = (
        "memory cannot be attributed to pods: the agent's pod lacks the host's /proc or hostPID (agent.host.proc of the"
        " chart)"
    )
    assert lines == ([text] if warned else [])
    assert (observer.capabilities.runtime_class, observer.capabilities.limits_readable) == (True, True)


class Told:
    """A cluster with one Node, whose GPUNode has this status."""

    def __init__(self, status: dict[str, Any]) -> None:
        self.status, self.patches = status, list[Any]()
        self.told = threading.Event()
        self.annotations: dict[str, str] = {}

    def node(self) -> dict[str, Any]:
        return {"metadata": {"name": "n1", "uid": "u", "annotations": self.annotations}}

    def runtime_class_exists(self, name: str) -> bool:
        return name == "nvidia"

    def ensure_gpu_node(self, node: dict[str, Any]) -> dict[str, Any]:
        return {"metadata": node["metadata"], "status": self.status}

    def patch_status(self, patch: dict[str, Any]) -> None:
        self.patches.append(patch)
        self.told.set()


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (
            "accept-nvidia-visible-devices-envvar-when-unprivileged = false",
            "config.toml says accept-nvidia-visible-devices-envvar-when-unprivileged = false",
        ),
        ("", "libnvidia-ml.so.1 is not in this container"),
    ],
    ids=["the runtime gives ordinary pods no GPUs", "the runtime would give them"],
)
def test_an_agent_that_finds_no_driver_tells_the_gpunode_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str, says: str
) -> None:
    def missing() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr("pynvml.nvmlInit", missing)
    path = tmp_path / "etc/nvidia-container-runtime/config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(config)
    args = main.parser().parse_args(["--node", "n1", "--host", str(tmp_path)])
    cluster: Any = Told({})
    with pytest.raises(GpuSourceError) as refused:
        main.opened(args, cluster)
    (patch,) = cluster.patches
    (condition,) = patch["status"]["conditions"]
    assert (says in str(refused.value), condition["message"]) == (True, str(refused.value))
    assert (condition["type"], patch["status"]["health"]) == ("GPUsUnreadable", "GPUs cannot be read")


def test_an_agent_whose_driver_hangs_at_its_start_tells_the_gpunode_so() -> None:
    cluster: Any = Told({})
    with unreadable_gpus.told_if_hanging(cluster, after_s=0.0):
        assert cluster.told.wait(60.0)
    (patch,) = cluster.patches
    (condition,) = patch["status"]["conditions"]
    assert (condition["type"], condition["message"]) == ("GPUsUnreadable", unreadable_gpus.HANGS)


def test_a_driver_that_answers_is_not_told_of() -> None:
    cluster: Any = Told({})
    with unreadable_gpus.told_if_hanging(cluster, after_s=3600.0):
        pass
    assert cluster.patches == []


def test_simulated_gpus_that_cannot_be_read_are_not_told_as_the_drivers() -> None:
    args = main.parser().parse_args(["--node", "n1", "--simulate", "--host", "/none"])
    cluster: Any = Told({})
    cluster.annotations["cotenant.dev/simulated-gpus"] = "no document"
    with pytest.raises(GpuSourceError):
        main.opened(args, cluster).inventory()
    assert cluster.patches == []
