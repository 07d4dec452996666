"""Documents of small worlds, and how a scenario of them is played. Time is virtual: nothing sleeps."""

from typing import Any

from cotenant.core.scheduling.scheduler import schedule
from cotenant.simulator import scenario
from cotenant.simulator.engine import SimulationResult, simulate
from cotenant.simulator.job_run import Costs

NOTHING_LOST = Costs(start_s=0, checkpoint_s=1)


def gpu_node(name: str, gpus: int) -> dict[str, Any]:
    return {
        "apiVersion": "cotenant.dev/v1beta1",
        "kind": "GPUNode",
        "metadata": {"name": name},
        "status": {
            "heartbeat": "2026-01-01T00:00:00Z",
            "simulated": True,
            "gpus": [
                {"uuid": f"GPU-{name}-{index}", "index": index, "class": "H100", "memoryMiB": 81920}
                for index in range(gpus)
            ],
        },
    }


def queue(name: str, guaranteed: str) -> dict[str, Any]:
    return {
        "apiVersion": "cotenant.dev/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"namespaces": [name], "quotas": [{"guaranteed": guaranteed, "limit": guaranteed}]},
    }


def job(name: str, *, gpus: int, runs: str, priority: int = 0, queue: str = "a", second: int = 0) -> dict[str, Any]:
    return {
        "apiVersion": "cotenant.dev/v1beta1",
        "kind": "TrainingJob",
        "metadata": {
            "name": name,
            "namespace": queue,
            "uid": f"uid-{name}",
            "creationTimestamp": f"2026-01-01T00:00:{second:02d}Z",
        },
        "spec": {
            "queue": queue,
            "workers": gpus,
            "priority": priority,
            "gpu": {"count": 1},
            "resources": {"cpu": "1", "memory": "1Gi"},
            "runtime": {"command": ["train"]},
            "expectedRuntime": runs,
        },
    }


def played(*documents: dict[str, Any]) -> tuple[scenario.Scenario, SimulationResult]:
    read = scenario.read(documents)
    return read, simulate(read, schedule, costs=NOTHING_LOST)


def ends(history: SimulationResult) -> dict[str, float | None]:
    return {key: run.end and run.end - history.start for key, run in sorted(history.runs.items())}
