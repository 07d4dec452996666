"""Defects that are put into the operator on purpose, each about one job."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from cotenant.controller.client.kube import GPU_NODES
from cotenant.core.snapshot.snapshot import Snapshot
from tests.controller.execution.replica import (
    NODE_NAMES,
    Replica,
    gpu_node,
    simulated_now,
    status,
)

BEAT_S = 5.0


class DefectError(Exception):
    pass


class Defect:
    """Makes a function raise whenever it is about the job `bad`, until it is mended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        self.mended, self.times = False, 0
        real = getattr(owner, name)

        def strike(args: tuple[Any, ...]) -> None:
            if not self.mended and any(is_about_bad(arg) for arg in args):
                self.times += 1
                raise DefectError(f"in {name}")

        def function(*args: Any, **named: Any) -> Any:
            strike(args)
            return real(*args, **named)

        async def coroutine(*args: Any, **named: Any) -> Any:
            strike(args)
            return await real(*args, **named)

        monkeypatch.setattr(owner, name, coroutine if inspect.iscoroutinefunction(real) else function)


def is_about_bad(arg: Any) -> bool:
    if isinstance(arg, Snapshot):
        return any(is_about_bad(job) for job in arg.jobs if job.workers_max > job.workers_min or job.placement is None)
    if isinstance(arg, dict):
        return bool(arg.get("metadata", {}).get("name") == "bad")
    return "red/bad" in {getattr(one, "key", None) for one in (arg, getattr(arg, "record", None))}


async def run(replica: Replica, seconds: float) -> None:
    """Run while agents go on reporting their nodes, with fewer looks at the watch than short tests take."""
    for _ in range(int(seconds / BEAT_S)):
        for name in NODE_NAMES:
            replica.kube.put(GPU_NODES, gpu_node(name, at=simulated_now()))
        await replica.run(BEAT_S, watch_s=0.5)


def conditions(replica: Replica, name: str = "bad") -> dict[str, tuple[str, str]]:
    """Type → status and reason."""
    return {one["type"]: (one["status"], one["reason"]) for one in status(replica.kube, name).get("conditions", ())}


def quarantined(replica: Replica) -> float:
    """The quarantined jobs that the metric shows."""
    samples = (sample for metric in replica.operator.metrics.registry.collect() for sample in metric.samples)
    return sum(one.value for one in samples if one.name == "cotenant_jobs_quarantined")
