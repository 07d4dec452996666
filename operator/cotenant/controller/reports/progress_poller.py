"""Polls rank 0 of every running job for its progress, at a bounded rate, and keeps the latest answer until it is
written.

Operator and launcher only share plain HTTP. Only the leading replica asks, and only the pod to which a committed
placement gives rank 0. If a pod does not answer, the last answer stays. With many jobs each one is polled less often,
so that few writes follow.

A slow pod delays only its own namespace: connections are bounded, in total and for each namespace, and a round leaves
out jobs that are still being asked.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
from collections.abc import Awaitable, Callable, Sequence, Set
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TypeAlias

from cotenant import contract, names
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import JobMemories, ProgressSample
from cotenant.controller.informers.job_record import JobId, JobRecord
from cotenant.controller.informers.pods.pod_record import PodRecord
from cotenant.controller.leader.leadership import Leadership
from cotenant.controller.lifecycle.progress import summary
from cotenant.controller.manifests.attempt import pod_name
from cotenant.controller.reports.fair_semaphore import FairSemaphore
from cotenant.controller.reports.progress_request import get_progress
from cotenant.controller.reports.slow_gpus import SlowGpus
from cotenant.controller.telemetry.metrics import Metrics
from cotenant.core.model.lifecycle import Phase

log = logging.getLogger(__name__)

AT_ONCE = 32
"""Connections to pods, and so file descriptors that pods can occupy."""
AT_ONCE_OF_A_NAMESPACE = 16
POLLS_PER_S = 40.0
FOLLOWER_PAUSE_S = 1.0
"""Pause between two looks of a replica that does not lead."""


Ask: TypeAlias = Callable[[str, int], Awaitable[bytes | contract.Malformed | None]]
"""(address of the pod, most bytes of its answer) → as `get_progress`."""


async def ask_pod(address: str, bytes_max: int) -> bytes | contract.Malformed | None:
    return await get_progress(address, names.PROGRESS_PORT, bytes_max=bytes_max)


@dataclass
class ProgressPoller:
    cache: ObjectCache
    memories: JobMemories
    metrics: Metrics
    slow_gpus: SlowGpus
    _: KW_ONLY
    leadership: Leadership
    every_s: float
    ask: Ask = ask_pod
    clock: Callable[[], float] = time.time
    """Unix seconds."""
    _connections: FairSemaphore = field(default_factory=lambda: FairSemaphore(AT_ONCE, of_one=AT_ONCE_OF_A_NAMESPACE))
    _asking: set[JobId] = field(default_factory=set)

    async def run(self) -> None:
        """Begin round after round while this replica leads, with a pause that keeps the rate."""
        async with asyncio.TaskGroup() as rounds:
            while True:
                running = self._running()
                rounds.create_task(self._poll_all(running))
                pause = max(self.every_s, len(running) / POLLS_PER_S) if self.leadership.held else FOLLOWER_PAUSE_S
                await asyncio.sleep(max(0.1, pause))

    def _running(self) -> list[JobRecord]:
        jobs = self.cache.jobs.values() if self.leadership.held else ()
        return [one for one in jobs if one.phase is Phase.RUNNING and not one.is_away]

    async def _poll_all(self, running: Sequence[JobRecord]) -> None:
        """Poll those that are not asked from an earlier round. Other jobs are forgotten; a follower forgets all."""
        self._forget_all_but({one.id for one in running})
        await asyncio.gather(*(self._poll(one) for one in running if one.id not in self._asking))
        if self.leadership.held:
            await self.slow_gpus.fade()

    def _forget_all_but(self, running: Set[JobId]) -> None:
        for memory in self.memories:
            if memory.id not in running:
                memory.progress = None
                memory.reported_slow_gpus.clear()

    async def _poll(self, record: JobRecord) -> None:
        """Poll one job. A failure is contained to it."""
        self._asking.add(record.id)
        try:
            async with self._connections.acquire(record.namespace):
                asked, body = await self._ask_head(record)
            if asked is not None:
                await self._take_progress(asked, body)
        except Exception:
            self.metrics.polls.labels("failed").inc()
            log.exception("the progress of %s was not taken", record.key)
        finally:
            self._asking.discard(record.id)

    async def _ask_head(self, record: JobRecord) -> tuple[JobRecord | None, bytes | contract.Malformed | None]:
        """The job after its turn in its namespace, with the answer. The job is None if no pod was asked."""
        current = self.cache.jobs.get(record.key)
        if current is None or current.id != record.id or current.placement is None or not self.leadership.held:
            return None, None
        pod = head_pod(current, self.cache.pods_of(current.id).get(_head_name(current)))
        if pod is None:
            return None, None
        return current, await self.ask(pod.ip, contract.progress_bounds(current.placement.workers).bytes_max)

    async def _take_progress(self, record: JobRecord, body: bytes | contract.Malformed | None) -> None:
        if record.placement is None or not self.leadership.held:
            return
        if body is None:
            self.metrics.polls.labels("failed").inc()
            return
        ranks = record.placement.workers
        answer = body if isinstance(body, contract.Malformed) else contract.Progress.from_json(body, ranks)
        if isinstance(answer, contract.Malformed):
            self.metrics.polls.labels("malformed").inc()
            self._keep_refusal(record, answer)
            return
        self.metrics.polls.labels("ok").inc()
        self._keep(record, answer)
        await self.slow_gpus.report(record, answer)

    def _keep_refusal(self, record: JobRecord, refused: contract.Malformed) -> None:
        """Keep the last answer, with a sentence about this one."""
        known = self.memories[record.id].progress_of(record.status.attempts)
        last = known.progress if known else contract.Progress(state="")
        sentence = f"the progress of rank 0 cannot be read: the answer of its pod {refused.reason}"
        self._keep(record, replace(last, warnings=(sentence,)))

    def _keep(self, record: JobRecord, answer: contract.Progress) -> None:
        memory, attempt = self.memories[record.id], record.status.attempts
        known = memory.progress_of(attempt)
        if known is not None and summary(known.progress) == summary(answer):
            return
        same = known is not None and (known.progress.step, known.progress.state) == (answer.step, answer.state)
        changed_at = known.step_changed_at if known is not None and same else self.clock()
        memory.progress = ProgressSample(attempt, answer, changed_at)
        self.cache.mark_changed([record.id])


def _head_name(record: JobRecord) -> str:
    return pod_name(record.name, record.status.attempts, 0, nodes=1, servers=0)


def head_pod(record: JobRecord, pod: PodRecord | None) -> PodRecord | None:
    """`pod` if it is the running pod of rank 0 by the committed placement, and has its own address."""
    if pod is None or pod.worker is None or record.status.placement is None or not pod.held:
        return None
    own = pod.worker
    if (own.job, own.attempt, own.node_rank, own.role) != (record.id, record.status.attempts, 0, contract.Role.WORKER):
        return None
    placed_on = record.status.placement.nodes[0].node
    return pod if pod.node == placed_on and _is_pod_address(pod.ip) else None


def _is_pod_address(text: str) -> bool:
    """A literal address that is not the operator's own machine, its link (cloud metadata) or a group."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified)
