"""A sweep on the double of the API server, jobs that somebody else runs, and replicas that are killed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from cotenant import names
from cotenant.api.conversion.to_core import parse_sweep
from cotenant.api.resources.sweeps.sweep import Sweep
from cotenant.api.resources.sweeps.sweep_status import SweepStatus
from cotenant.controller.client.fence import Fence
from cotenant.controller.client.kube import SWEEPS, TRAINING_JOBS, Document
from cotenant.controller.composites.controller import CompositeController
from cotenant.controller.composites.sweeps.sweep_kind import SweepKind
from cotenant.controller.execution.writes.event_recorder import EventRecorder
from cotenant.controller.informers.feed.reflector import Reflector
from cotenant.controller.telemetry.metrics import Metrics
from tests.controller.execution.replica import simulated_now
from tests.support.fake_kube import FakeKube

TEMPLATE: dict[str, Any] = {
    "queue": "red",
    "gpu": {"count": 1},
    "runtime": {"command": ["python", "train.py"], "args": ["--lr=$(params.lr)"]},
}
LR = {"name": "lr", "number": {"min": 0.001, "max": 1.0, "scale": "Log"}}


def sweep_document(**spec: Any) -> Document:
    given = {
        "algorithm": "Random",
        "parameters": [LR],
        "objective": {"metric": "loss", "goal": "Minimize"},
        "maxTrials": 4,
        "parallelism": 2,
        "template": {"spec": TEMPLATE},
        **spec,
    }
    annotations = {names.ANNOTATION_USER: "ada"}
    return {
        "apiVersion": names.API_VERSION,
        "kind": "Sweep",
        "metadata": {"name": "lr", "namespace": "red", "generation": 1, "annotations": annotations},
        "spec": given,
    }


def sweep_of(document: Mapping[str, Any]) -> Sweep:
    return parse_sweep(document)


class World:
    """Each `run` is a replica that knows nothing of those before, and is killed in the midst of what it does."""

    def __init__(self, **spec: Any) -> None:
        self.kube = FakeKube()
        self.kube.put(SWEEPS, sweep_document(**spec))
        self.leads = True
        self.ran: dict[str, list[str]] = {}
        """Name of a job → uids of those that came to run under it."""

    @property
    def document(self) -> Document:
        found = self.kube.stored(SWEEPS, "lr", "red")
        assert found is not None
        return found

    @property
    def status(self) -> SweepStatus:
        return SweepStatus.model_validate(self.document.get("status") or {})

    def jobs(self) -> dict[str, Document]:
        stored = (self.kube.stored(TRAINING_JOBS, name, "red") for name in self._names())
        return {one["metadata"]["name"]: one for one in stored if one is not None}

    def _names(self) -> list[str]:
        return sorted(
            {call.removeprefix("POST trainingjobs/") for call in self.kube.calls if call.startswith("POST t")}
        )

    def edit(self, **spec: Any) -> None:
        known = self.document
        metadata = known["metadata"] | {"generation": known["metadata"]["generation"] + 1}
        self.kube.put(SWEEPS, known | {"metadata": metadata, "spec": known["spec"] | spec})

    def write_job(self, name: str, status: Mapping[str, Any]) -> None:
        job = self.jobs()[name]
        self.kube.put(TRAINING_JOBS, job | {"status": dict(status)})

    def start(self, name: str) -> None:
        uid = self.jobs()[name]["metadata"]["uid"]
        if uid not in self.ran.setdefault(name, []):
            self.ran[name].append(uid)
        self.write_job(name, {"phase": "Running", "progress": {"step": 0}})

    def train(self, name: str, step: int, loss: float) -> None:
        self.write_job(name, {"phase": "Running", "progress": {"step": step, "metrics": {"loss": loss}}})

    def finish(self, name: str, loss: float | None = 0.5) -> None:
        results = {"loss": loss} if loss is not None else {"accuracy": 1.0}
        self.write_job(name, {"phase": "Succeeded", "results": results, "progress": {"step": 100}})

    def fail(self, name: str, message: str = "exit code 1") -> None:
        self.write_job(name, {"phase": "Failed", "reason": "Failed", "message": message})

    def obey(self) -> None:
        """What the rest of the operator does with jobs that are asked to stop or are suspended."""
        for name, job in self.jobs().items():
            phase = (job.get("status") or {}).get("phase")
            said = (job["metadata"].get("annotations") or {}).get(names.ANNOTATION_STOP)
            if said and phase not in {"Succeeded", "Failed"}:
                self.write_job(name, {"phase": "Failed", "reason": "Stopped", "message": said})
            elif job["spec"].get("suspend") and phase in {"Running", None}:
                self.write_job(name, {"phase": "Suspended"})
            elif not job["spec"].get("suspend") and phase == "Suspended":
                self.write_job(name, {"phase": "Pending"})

    async def run(self, seconds: float = 3.0) -> None:
        """A replica from its start to its end."""
        self.kube.before_write = Fence(lambda: self.leads).check
        metrics = Metrics()
        events = EventRecorder(self.kube, metrics, identity="replica", per_second=100.0)
        controller = CompositeController(
            self.kube, SweepKind(), events, metrics, has_taken_over=lambda: self.leads, clock=simulated_now
        )
        controller.replace(TRAINING_JOBS, await self.kube.list(TRAINING_JOBS))
        sweeps = Reflector(kube=self.kube, resource=SWEEPS, replace=controller.replace, put=controller.put)
        parts = (controller.run(), events.run(), sweeps.run())
        tasks = [asyncio.create_task(one) for one in parts]
        ends_at = asyncio.get_running_loop().time() + seconds
        self.kube.deliver(lambda *event: None)
        while asyncio.get_running_loop().time() < ends_at:
            self.kube.deliver(controller.put)
            await asyncio.sleep(min(0.05, seconds))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
