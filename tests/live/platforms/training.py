"""The ordinary job: four ranks on two nodes that agree on a sum, step by step, as any data-parallel program does."""

from __future__ import annotations

from typing import Any

from tests.live.e2e.tenancy import Tenancy, training_job

PROGRAM = """
import torch, torch.distributed as dist
from cotenant_worker import report
dist.init_process_group("gloo")
weights = torch.zeros(1000)
for step in range(5):
    gradients = torch.full((1000,), float(dist.get_rank()))
    dist.all_reduce(gradients)
    weights += gradients
    report(step=step, of=5)
assert weights[0].item() == 5 * sum(range(dist.get_world_size())), weights[0]
"""


def ordinary_job(namespace: str, name: str = "ordinary", workers: int = 4) -> dict[str, Any]:
    return training_job(name, namespace, command=["python", "-c", PROGRAM], workers=workers, gpu={"count": 1})


def trains(tenancy: Tenancy, namespace: str, *, seconds: float = 240) -> dict[str, Any]:
    """Apply the ordinary job and wait for its end. Returns its status; fails with it unless it succeeded."""
    tenancy.apply(ordinary_job(namespace))
    found = tenancy.wait_phase("ordinary", "Succeeded", "Failed", namespace=namespace, seconds=seconds)
    status: dict[str, Any] = found["status"]
    assert (status["phase"], status["attempts"]) == ("Succeeded", 1), status
    return status
