"""Polls rank 0 of every running job for its progress, at a bounded rate, and keeps the latest answer until it is
written.

The operator and the launcher have plain HTTP between them and nothing else. Only the replica that leads asks, and only
the pod that a committed placement has for rank 0. A pod that does not answer is no fault: the last answer stays. With
many jobs each one is polled less often, so that the writes that follow stay few.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
from collections.abc import Awaitable, Callable, Set
from dataclasses import replace
from typing import TypeAlias

from cotenant import contract, names
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import JobMemories, ProgressSample
from cotenant.controller.informers.job_record import JobId, JobRecord
from cotenant.controller.informers.pod_record import PodRecord
from cotenant.controller.lifecycle.progress import summary
from cotenant.controller.manifests.attempt import pod_name
from cotenant.controller.reports.progress_request import get_progress
from cotenant.controller.reports.slow_gpus import SlowGpus
from cotenant.controller.telemetry.metrics import Metrics
from cotenant.core.model.lifecycle import Phase

log = logging.getLogger(__name__)

AT_ONCE = 32
POLLS_PER_S = 40.0
FOLLOWER_PAUSE_S = 1.0
"""Between two looks of a replica that does not lead whether it does now."""


Ask: TypeAlias = Callable[[str, int], Awaitable[bytes | contract.Malformed | None]]
"""(address of the pod, bytes that its answer may have) → as `get_progress`."""


async def ask_pod(address: str, bytes_max: int) -> bytes | contract.Malformed | None:
    return await get_progress(address, names.PROGRESS_PORT, bytes_max=bytes_max)


class ProgressPoller:
    def __init__(
        self,
        cache: ObjectCache,
        memories: JobMemories,
        metrics: Metrics,
        slow_gpus: SlowGpus,
        *,
        is_leader: Callable[[], bool],
        every_s: float,
        ask: Ask = ask_pod,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._cache = cache
        self._memories = memories
        self._metrics = metrics
        self._slow_gpus = slow_gpus
        self._is_leader = is_leader
        self._every_s = every_s
        self._ask = ask
        self._clock = clock
        """Unix seconds."""

    async def run(self) -> None:
        """Poll round after round while this replica leads, with a pause that keeps the rate."""
        while True:
            started = time.monotonic()
            polled = await self.poll_running()
            pause = max(self._every_s, polled / POLLS_PER_S) if self._is_leader() else FOLLOWER_PAUSE_S
            await asyncio.sleep(max(0.1, pause - (time.monotonic() - started)))

    async def poll_running(self) -> int:
        """Poll every running job once, and forget the others; returns how many were asked. A follower forgets all."""
        jobs = self._cache.jobs.values() if self._is_leader() else ()
        running = [one for one in jobs if one.phase is Phase.RUNNING]
        self._forget_all_but({one.id for one in running})
        limit = asyncio.Semaphore(AT_ONCE)
        await asyncio.gather(*(self._poll(limit, record) for record in running))
        if self._is_leader():
            await self._slow_gpus.fade()
        return len(running)

    def _forget_all_but(self, running: Set[JobId]) -> None:
        for memory in self._memories:
            if memory.id not in running:
                memory.progress = None
                memory.reported_slow_gpus.clear()

    async def _poll(self, limit: asyncio.Semaphore, record: JobRecord) -> None:
        """What goes wrong with one job stays with it."""
        try:
            await self._take_progress(limit, record)
        except Exception:
            self._metrics.polls.labels("failed").inc()
            log.exception("the progress of %s was not taken", record.key)

    async def _take_progress(self, limit: asyncio.Semaphore, record: JobRecord) -> None:
        pod = head_pod(record, self._cache.pods_of(record.id).get(_head_name(record)))
        if pod is None or record.placement is None:
            return
        ranks = record.placement.workers
        async with limit:
            body = await self._ask(pod.ip, contract.progress_bounds(ranks).bytes_max)
        if body is None:
            self._metrics.polls.labels("failed").inc()
            return
        answer = body if isinstance(body, contract.Malformed) else contract.Progress.from_json(body, ranks)
        if isinstance(answer, contract.Malformed):
            self._metrics.polls.labels("malformed").inc()
            self._keep_refusal(record, answer)
            return
        self._metrics.polls.labels("ok").inc()
        self._keep(record, answer)
        await self._slow_gpus.report(record, answer)

    def _keep_refusal(self, record: JobRecord, refused: contract.Malformed) -> None:
        """The last answer stays, with a sentence about this one."""
        known = self._memories[record.id].progress_of(record.status.attempts)
        last = known.progress if known else contract.Progress(state="")
        sentence = f"the progress of rank 0 cannot be read: the answer of its pod {refused.reason}"
        self._keep(record, replace(last, warnings=(sentence,)))

    def _keep(self, record: JobRecord, answer: contract.Progress) -> None:
        memory, attempt = self._memories[record.id], record.status.attempts
        known = memory.progress_of(attempt)
        if known is not None and summary(known.progress) == summary(answer):
            return
        same = known is not None and (known.progress.step, known.progress.state) == (answer.step, answer.state)
        changed_at = known.step_changed_at if known is not None and same else self._clock()
        memory.progress = ProgressSample(attempt, answer, changed_at)
        self._cache.mark_changed([record.id])


def _head_name(record: JobRecord) -> str:
    return pod_name(record.name, record.status.attempts, 0, nodes=1)


def head_pod(record: JobRecord, pod: PodRecord | None) -> PodRecord | None:
    """`pod` where it is the one that the committed placement has for rank 0, runs, and has an address of its own."""
    if pod is None or pod.worker is None or record.status.placement is None or not pod.held:
        return None
    own = pod.worker
    if (own.job, own.attempt, own.node_rank, own.server) != (record.id, record.status.attempts, 0, False):
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
