"""Replays a scenario on a real API server: jobs arrive at their times, simulated kubelets run the bound pods.

Statistics are those of Kueue's recorder: the time of the whole, the mean time from a job's creation to its admission by
kind of workload, and how much of what is guaranteed to a queue was in use. A workload of Kueue's test has no pod; ours
gets its pod, which the kube-scheduler binds, and runs from when that pod runs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from bench.parts.admission.scenario import Arrival, ScenarioQueue, job
from cotenant import names
from cotenant.controller.client.kube import PODS, TRAINING_JOBS, Document, Listing, Resource
from cotenant.controller.client.rest import RestKube
from cotenant.controller.informers.feed.reflector import Reflector
from tests.support.pod_writer import ended, running

WAITING = ("", "Pending")
OVER = ("Succeeded", "Failed")


@dataclass(slots=True, kw_only=True)
class Replay:
    kube: RestKube
    queues: Sequence[ScenarioQueue]
    arrivals: Sequence[Arrival]
    namespace: str
    _by_name: dict[str, Arrival] = field(default_factory=dict)
    _created: dict[str, float] = field(default_factory=dict)
    _admitted: dict[str, float] = field(default_factory=dict)
    _over: dict[str, float] = field(default_factory=dict)
    _failed: int = 0
    _seen: set[tuple[str, str]] = field(default_factory=set)
    """(uid of a pod, what was written of it)."""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _connections: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(100))
    _all_over: asyncio.Event = field(default_factory=asyncio.Event)

    async def play(self, deadline_s: float) -> dict[str, float]:
        """Figures, seconds. Raises SystemExit where jobs are left at the deadline."""
        self._by_name = {arrival.name: arrival for arrival in self.arrivals}
        feeds = [
            asyncio.create_task(Reflector(kube=self.kube, resource=of, replace=self._list, put=self._put).run())
            for of in (TRAINING_JOBS, PODS)
        ]
        started = time.monotonic()
        try:
            await self._arrive(started)
            await asyncio.wait_for(self._all_over.wait(), deadline_s)
        except TimeoutError:
            raise SystemExit(
                f"{len(self.arrivals) - len(self._over)} jobs were left after {deadline_s:.0f} s"
            ) from None
        finally:
            for task in (*feeds, *self._tasks):
                task.cancel()
            await asyncio.gather(*feeds, *self._tasks, return_exceptions=True)
        return self._figures(started)

    async def _arrive(self, started: float) -> None:
        """Create each at its time, or as soon as the API server takes it."""
        for arrival in self.arrivals:
            await asyncio.sleep(max(0.0, started + arrival.at_s - time.monotonic()))
            await self._connections.acquire()
            self._spawn(self._create(arrival))

    async def _create(self, arrival: Arrival) -> None:
        self._created[arrival.name] = time.monotonic()
        reply = await self.kube.create(TRAINING_JOBS, job(arrival, self.namespace), self.namespace)
        self._connections.release()
        if not reply.done:
            raise SystemExit(f"{arrival.name}: {reply.message}")

    def _spawn(self, coroutine: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _list(self, resource: Resource, listing: Listing) -> None:
        for document in listing.items:
            self._put(resource, document, False)

    def _put(self, resource: Resource, document: Document, deleted: bool) -> None:
        if deleted:
            return
        if resource == PODS:
            self._run(document)
        elif (name := document["metadata"]["name"]) in self._by_name:
            phase = document.get("status", {}).get("phase") or ""
            if phase not in WAITING:
                self._admitted.setdefault(name, time.monotonic())
            if phase in OVER and name not in self._over:
                self._over[name] = time.monotonic()
                self._failed += phase == "Failed"
                if len(self._over) == len(self.arrivals):
                    self._all_over.set()

    def _run(self, pod: Document) -> None:
        """Do what a kubelet would do with a bound pod."""
        metadata, spec = pod["metadata"], pod["spec"]
        if metadata.get("labels", {}).get(names.LABEL_MANAGED_BY) != names.MANAGED_BY or not spec.get("nodeName"):
            return
        step = "end" if "deletionTimestamp" in metadata else "run"
        if (metadata["uid"], step) not in self._seen:
            self._seen.add((metadata["uid"], step))
            self._spawn(self._end(pod) if step == "end" else self._run_through(pod))

    async def _end(self, pod: Document) -> None:
        metadata = pod["metadata"]
        await self.kube.delete(PODS, metadata["name"], metadata["namespace"], uid=metadata["uid"], grace_s=0)

    async def _run_through(self, pod: Document) -> None:
        await self._write(pod, running())
        await asyncio.sleep(self._by_name[pod["metadata"]["labels"][names.LABEL_JOB]].of.run_s)
        await self._write(pod, ended(pod, 0))

    async def _write(self, pod: Document, status: Document) -> None:
        metadata = pod["metadata"]
        body = {"metadata": {"uid": metadata["uid"]}, "status": status}
        await self.kube.patch(PODS, metadata["name"], body, namespace=metadata["namespace"], subresource="status")

    def _figures(self, started: float) -> dict[str, float]:
        wall = max(self._over.values()) - started
        kinds = sorted({arrival.of.kind for arrival in self.arrivals})
        waits = {
            f"{kind}_mean_time_to_admission_s": fmean(
                self._admitted[name] - self._created[name]
                for name, arrival in self._by_name.items()
                if arrival.of.kind == kind
            )
            for kind in kinds
        }
        uses = [self._use(queue, wall) for queue in self.queues]
        return {
            "jobs": len(self.arrivals),
            "failed": self._failed,
            "wall_s": wall,
            "jobs_per_s": len(self.arrivals) / wall,
            **waits,
            "least_use_of_a_queue_percent": min(uses),
            "mean_use_of_queues_percent": fmean(uses),
        }

    def _use(self, queue: ScenarioQueue, wall: float) -> float:
        """Use of the guarantee in percent, over the whole time; above 100 if the queue borrowed."""
        held = sum(
            arrival.of.gpus * (self._over[name] - self._admitted[name])
            for name, arrival in self._by_name.items()
            if arrival.queue == queue.name
        )
        return 100 * held / (queue.guaranteed * wall)
