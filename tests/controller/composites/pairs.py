"""A kind that is made of two ConfigMaps, and a replica that reconciles it on the double of the API server."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from cotenant import names
from cotenant.controller.client.fence import Fence
from cotenant.controller.client.kube import CONFIG_MAPS, EVENTS, Document, Resource
from cotenant.controller.composites.composite import Composite, Create, Delete, Observed, Patch, Write, Writes
from cotenant.controller.composites.controller import CompositeController
from cotenant.controller.execution.writes.event_recorder import EventRecorder
from cotenant.controller.informers.feed.reflector import Reflector
from cotenant.controller.lifecycle.observation import EventToRecord
from cotenant.controller.telemetry.metrics import Metrics
from tests.controller.execution.replica import simulated_now
from tests.support.fake_kube import FakeKube

PAIRS = Resource(names.GROUP, names.VERSION, "pairs")


@dataclass
class Pair(Composite):
    """A kind whose `spec.value` has to be in both halves. Other owned objects have to be deleted."""

    resource = PAIRS
    kind = "Pair"
    owns = (CONFIG_MAPS,)

    decided: list[str] = field(default_factory=list)

    def decide(self, observed: Observed, now: float) -> Writes:
        self.decided.append(observed.name)
        spec, there = observed.document["spec"], observed.of(CONFIG_MAPS)
        if spec["value"] == "raises":
            raise KeyError("value")
        wanted = [f"{observed.name}-{half}" for half in (0, 1)]
        data = {"value": spec["value"]}
        writes: list[Write] = [
            Create(CONFIG_MAPS, {"metadata": {"name": name}, "data": data}) for name in wanted if name not in there
        ]
        writes += [
            Patch(CONFIG_MAPS, one, {"data": data})
            for name, one in there.items()
            if name in wanted and one["data"] != data
        ]
        writes += [Delete(CONFIG_MAPS, one) for name, one in there.items() if name not in wanted]
        return Writes(
            objects=tuple(writes),
            status={"value": spec["value"], "conditions": []},
            events=(EventToRecord(reason="Paired", message=spec["value"]),),
            look_again_at=spec.get("lookAgainAt"),
        )


class PairReplica:
    """Leads from the start; setting `leads` to False is the end of its leadership."""

    def __init__(self, kube: FakeKube) -> None:
        self.kube, self.leads, self.pair, self.metrics = kube, True, Pair(), Metrics()
        self.kube.before_write = Fence(lambda: self.leads).check
        self.events = EventRecorder(kube, self.metrics, identity="replica", per_second=100.0)
        self.controller = CompositeController(
            kube, self.pair, self.events, self.metrics, has_taken_over=lambda: self.leads, clock=simulated_now
        )

    async def run(self, seconds: float = 5.0) -> None:
        """Run for this long, then stop as if killed."""
        put, replace = self.controller.put, self.controller.replace
        watches = [Reflector(kube=self.kube, resource=one, replace=replace, put=put) for one in (PAIRS, CONFIG_MAPS)]
        parts = [self.controller.run(), self.events.run(), *(one.run() for one in watches)]
        tasks = [asyncio.create_task(one) for one in parts]
        await asyncio.sleep(seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def pair(kube: FakeKube, name: str = "a", value: str = "1", **more: Any) -> Document:
    known = kube.stored(PAIRS, name, "red") or {"metadata": {"name": name, "namespace": "red"}}
    metadata = known["metadata"] | {"generation": known["metadata"].get("generation", 0) + 1}
    return kube.put(PAIRS, known | {"metadata": metadata, "spec": {"value": value, **more}})


def halves(kube: FakeKube, name: str = "a") -> list[str | None]:
    found = [kube.stored(CONFIG_MAPS, f"{name}-{half}", "red") for half in (0, 1)]
    return [one["data"]["value"] if one else None for one in found]


def status(kube: FakeKube, name: str = "a") -> dict[str, Any]:
    return (kube.stored(PAIRS, name, "red") or {}).get("status") or {}


def condition(kube: FakeKube, name: str = "a") -> tuple[str, str, str] | None:
    """Status, reason and message of the condition of its quarantine."""
    for one in status(kube, name).get("conditions", ()):
        return one["status"], one["reason"], one["message"]
    return None


async def reported(kube: FakeKube) -> list[tuple[str, str, str]]:
    return [
        (one["involvedObject"]["kind"], one["involvedObject"]["name"], one["message"])
        for one in (await kube.list(EVENTS)).items
    ]
