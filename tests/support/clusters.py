"""Builders of whole clusters for tests and benchmarks: keyword functions with small defaults. No pytest in here.

`make_node("n1", gpus=8)`, `make_queue("red", guaranteed=4)`, `make_job("a", queue="red", gpus=2)`. GPUs are counted
in whole GPUs where a name has `gpus`, and in milli where it has `milli`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from cotenant.core.model.objects import (
    WHOLE,
    Gpu,
    GpuRequest,
    GrantedGpu,
    Job,
    Node,
    NodePlacement,
    Placement,
    Quota,
    RankPlacement,
    TenantQueue,
)
from cotenant.core.model.plan import Action, Admit, Evict, Plan
from cotenant.core.policy import Policy
from cotenant.core.scheduling.scheduler import schedule
from cotenant.core.snapshot.snapshot import Snapshot
from cotenant.core.state.cluster_state import ClusterState
from cotenant.core.state.facts import JobGone, JobObserved, NodeObserved, QueueObserved

UNPROTECTED = Policy(protected_runtime_s=0)
"""The default, but a job may be evicted as soon as it has started."""


def make_node(
    name: str,
    *,
    gpus: int = 2,
    gpu_class: str = "H100",
    memory_mib: int = 81_920,
    cpu_milli: int = 64_000,
    host_mib: int = 512 * 1024,
    peers: tuple[tuple[int, ...], ...] = (),
    resource: str = "",
    **changes: Any,
) -> Node:
    """`peers`: groups of GPU indices that NVLink connects. `resource`: whole devices of another maker."""
    uuids = [f"GPU-{name}-{index}" for index in range(gpus)]
    linked = {index: frozenset(uuids[peer] for peer in group if peer != index) for group in peers for index in group}
    return Node(
        name=name,
        gpus=tuple(
            Gpu(
                uuid=uuid,
                gpu_class=gpu_class,
                memory_mib=memory_mib,
                index=index,
                peers=linked.get(index, frozenset()),
                whole_only=bool(resource),
                resource=resource,
            )
            for index, uuid in enumerate(uuids)
        ),
        cpu_milli=cpu_milli,
        memory_mib=host_mib,
        **changes,
    )


def make_queue(
    name: str,
    *,
    guaranteed: int | None = None,
    limit: int | None = None,
    lendable: int | None = None,
    gpu_class: str | None = None,
    zone: str | None = None,
    **changes: Any,
) -> TenantQueue:
    """One line in whole GPUs where `guaranteed` or `limit` is given, else `quotas`. Serves namespace `name`."""
    if guaranteed is not None or limit is not None:
        changes["quotas"] = (
            Quota(
                gpu_class=gpu_class,
                zone=zone,
                guaranteed=(guaranteed or 0) * WHOLE,
                limit=None if limit is None else limit * WHOLE,
                lendable=None if lendable is None else lendable * WHOLE,
            ),
        )
    changes.setdefault("namespaces", frozenset({name}))
    return TenantQueue(name=name, **changes)


def make_job(
    name: str,
    *,
    queue: str = "red",
    gpus: int = 1,
    milli: int | None = None,
    workers: int | tuple[int, int] = 1,
    at: float = 0.0,
    gpu: GpuRequest | None = None,
    **changes: Any,
) -> Job:
    """`gpus` per worker, or a share of `milli`; `workers` a number or (min, max); `at` is the time of submission."""
    low, high = (workers, workers) if isinstance(workers, int) else workers
    namespace = changes.pop("namespace", queue)
    if gpu is None:
        wanted = {key: changes.pop(key) for key in ("classes", "zones", "sharing") if key in changes}
        gpu = GpuRequest(count=gpus, **wanted) if milli is None else GpuRequest(memory_milli=milli, **wanted)
    return Job(
        key=f"{namespace}/{name}",
        uid=changes.pop("uid", f"uid-{namespace}-{name}"),
        namespace=namespace,
        queue=queue,
        workers_min=low,
        workers_max=high,
        gpu=gpu,
        submitted_at=at,
        **changes,
    )


def make_placement(*nodes: tuple[str, list[list[int]]], memory_mib: int = 81_920, milli: int = WHOLE) -> Placement:
    """`make_placement(("n1", [[0], [1]]))`: two ranks on n1, on GPU 0 and on GPU 1. `milli` of each GPU."""
    rank = 0
    parts = []
    for node, workers in nodes:
        ranks = []
        for columns in workers:
            grants = tuple(
                GrantedGpu(uuid=f"GPU-{node}-{column}", memory_mib=memory_mib * milli // WHOLE, compute_milli=milli)
                for column in columns
            )
            ranks.append(RankPlacement(rank=rank, gpus=grants))
            rank += 1
        parts.append(NodePlacement(node=node, ranks=tuple(ranks)))
    return Placement(nodes=tuple(parts))


def make_snapshot(
    *, nodes: list[Node], queues: list[TenantQueue], jobs: list[Job], now: float = 1_000.0, **changes: Any
) -> Snapshot:
    return Snapshot(now=now, nodes=tuple(nodes), queues=tuple(queues), jobs=tuple(jobs), **changes)


class ToyCluster:
    """A cluster that does what plans say, one step at a time: what is evicted leaves in the next step, resizes too.

    Time is a number; nothing sleeps. A cycle takes a second, so no job has protected minutes unless a policy says so.
    `cycle` decides once and carries the plan out, `settle` repeats that until a plan
    has no actions and no job is leaving any more.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        queues: Iterable[TenantQueue],
        jobs: Iterable[Job] = (),
        policy: Policy = UNPROTECTED,
    ) -> None:
        self.state = ClusterState()
        self.policy = policy
        self.now = 0.0
        self.jobs: dict[str, Job] = {}
        self.history: list[Action] = []
        for node in nodes:
            self.state.observe(NodeObserved(node))
        for queue in queues:
            self.state.observe(QueueObserved(queue))
        for job in jobs:
            self.observe(job)

    def observe(self, job: Job) -> None:
        self.jobs[job.key] = job
        self.state.observe(JobObserved(job))

    def end(self, key: str) -> None:
        """The job has finished or was deleted."""
        self.jobs.pop(key, None)
        self.state.observe(JobGone(key))

    def snapshot(self) -> Snapshot:
        self.state.advance(self.now)
        return self.state.snapshot(self.now)

    def finish_evictions(self) -> None:
        """Let every job that was asked to leave be gone."""
        for job in list(self.jobs.values()):
            if job.evicting:
                gone: dict[str, Any] = dict.fromkeys(("placement", "admitted_at", "backfilled_until", "resizing_from"))
                self.observe(replace(job, evicting=False, requeued_at=self.now, **gone))
            elif job.resizing_from is not None:
                self.observe(replace(job, resizing_from=None))

    def cycle(self) -> Plan:
        self.now += 1.0
        plan = schedule(self.snapshot(), self.policy)
        self.state.assume(plan, self.now)
        self.history.extend(plan.actions)
        for action in plan.actions:
            job = self.jobs[action.job]
            if isinstance(action, Admit):
                until = action.backfilled_until
                self.observe(replace(job, placement=action.placement, admitted_at=self.now, backfilled_until=until))
            elif isinstance(action, Evict):
                self.observe(replace(job, evicting=True))
            else:
                self.observe(replace(job, placement=action.placement, resizing_from=job.placement))
        return plan

    def settle(self, *, cycles: int = 200) -> Plan:
        """Goes on until nothing happens any more; raises if that takes more than `cycles`."""
        for _ in range(cycles):
            plan = self.cycle()
            if not plan.actions and not any(job.evicting or job.resizing_from for job in self.jobs.values()):
                return plan
            self.finish_evictions()
        raise AssertionError(f"not quiet after {cycles} cycles: {self.history[-6:]}")
