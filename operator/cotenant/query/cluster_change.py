"""The effect of a change of the cluster (a quota, a node or a setting), by the operator's own `schedule`.

The planned snapshot is decided with and without the change, and both futures are played. The answer is the difference.
`schedule` is a function, so a job that is said to start does so in the cycle after the change, if nothing else happens.
Jobs on a drained node count as gone at once; in truth they save first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from cotenant.core.model.objects import Gpu, Job, JobKey, Node, TenantQueue
from cotenant.core.model.plan import Admit, Evict, Plan
from cotenant.core.outlook.estimates import Estimate
from cotenant.core.policy import Policy
from cotenant.core.quota.bookings import capacity_of, with_bookings
from cotenant.core.quota.tree import QueueTree, QuotaLine
from cotenant.core.scheduling.scheduler import place
from cotenant.core.snapshot.accounting import Accounting
from cotenant.core.snapshot.snapshot import Snapshot
from cotenant.query.redaction import JobMention, Sees, uuids_of
from cotenant.query.situation import Situation
from cotenant.query.what_if import MENTIONED, WORTH_S, play, why_leaves

DRAINED: Final = "its node would be drained"
Clock: TypeAlias = Callable[[], Callable[[], bool]]
"""Starts the time of one played future. The result says whether to go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedCluster:
    """The cluster as it would be."""

    snapshot: Snapshot
    policy: Policy
    left: tuple[JobKey, ...] = ()
    """Jobs that the change itself ends."""
    why_left: str = DRAINED
    moved: JobKey = ""
    """The running job that the change is about. It is not listed among the affected jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedStart:
    """A waiting job whose start would change."""

    job: JobMention
    before: float | None
    """Unix seconds; None if no start is known."""
    after: float | None

    def as_seen(self, sees: Sees) -> MovedStart:
        return replace(self, job=self.job.as_seen(sees))


@dataclass(frozen=True, slots=True, kw_only=True)
class UnbackedGuarantee:
    """A guarantee that would count for less, because all guarantees together would exceed the GPUs. In milli-GPU."""

    queue: str
    gpu_class: str | None
    zone: str | None
    guaranteed: int
    effective: int
    """What it would count for."""


_LISTS: Final = {
    "starts": "starts",
    "promised": "promised",
    "evicted": "evicted",
    "keptWaiting": "kept_waiting",
    "sooner": "sooner",
    "later": "later",
}
"""Name in `ClusterWhatIf.counts` → the list that is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterWhatIf:
    """The differences. Each list is sorted by key and at most `MENTIONED` long; `counts` has the full numbers."""

    starts: tuple[JobMention, ...] = ()
    """Jobs that would start now, and do not without the change."""
    promised: tuple[JobMention, ...] = ()
    """Jobs that would start as soon as others have left."""
    evicted: tuple[JobMention, ...] = ()
    kept_waiting: tuple[JobMention, ...] = ()
    """Jobs that would start now only without the change."""
    sooner: tuple[MovedStart, ...] = ()
    later: tuple[MovedStart, ...] = ()
    counts: tuple[tuple[str, int], ...] = ()
    """Name of a list → how many there are."""
    waiting: tuple[int, int] = (0, 0)
    """Jobs that wait after the next decision, without and with the change."""
    unbacked: tuple[UnbackedGuarantee, ...] = ()

    @property
    def namespaces(self) -> frozenset[str]:
        moved = (one.job for one in (*self.sooner, *self.later))
        mentions = (*self.starts, *self.promised, *self.evicted, *self.kept_waiting, *moved)
        return frozenset(one.namespace for one in mentions)

    def as_seen(self, sees: Sees) -> ClusterWhatIf:
        """The answer without the names of jobs that the caller may not read."""
        lists: dict[str, Any] = {
            name: tuple(one.as_seen(sees) for one in getattr(self, name)) for name in _LISTS.values()
        }
        return replace(self, **lists)


def what_if_cluster(situation: Situation, changed: ChangedCluster, clock: Clock) -> ClusterWhatIf:
    """The effect of the change on jobs that wait or run."""
    without = place(situation.snapshot, situation.policy)
    plan = place(changed.snapshot, changed.policy)
    mention = situation.mention
    started, starts = _admitted(without), _admitted(plan)
    gone = {one.job for one in without.actions if isinstance(one, Evict)} | {changed.moved}
    evicted = {one.job: why_leaves(one.kind) for one in plan.actions if isinstance(one, Evict) and one.job not in gone}
    evicted |= dict.fromkeys((key for key in changed.left if key not in starts), changed.why_left)
    moved = [
        mention(key, f"{changed.why_left}; it would start again on {starts[key]}")
        for key in changed.left
        if key in starts
    ]
    new = [mention(key, f"on {starts[key]}") for key in sorted(starts.keys() - started.keys() - set(changed.left))]
    promised = [
        mention(key)
        for key in sorted(set(plan.nominations) - set(without.nominations) - {*changed.left, changed.moved})
    ]
    kept = [mention(key) for key in sorted(started.keys() - starts.keys() - set(plan.nominations))]
    before, after = (play(*one, clock()) for one in (
        (situation.snapshot, situation.policy), (changed.snapshot, changed.policy)
    ))  # fmt: skip
    aside = {*started, *starts, *plan.nominations, *changed.left}
    sooner, later = _moved(_Starts(without, before), _Starts(plan, after), aside, mention)
    out = [*moved, *(mention(key, why) for key, why in sorted(evicted.items()))]
    found: tuple[list[Any], ...] = (new, promised, out, kept, sooner, later)
    lists: dict[str, Any] = {name: tuple(one[:MENTIONED]) for name, one in zip(_LISTS.values(), found, strict=True)}
    return ClusterWhatIf(
        **lists,
        counts=tuple((name, len(one)) for name, one in zip(_LISTS, found, strict=True)),
        waiting=(len(without.verdicts), len(plan.verdicts)),
        unbacked=_unbacked(
            situation.accounting.tree, Accounting.of(changed.snapshot.nodes, changed.snapshot.queues, ()).tree
        ),
    )


def with_queue(snapshot: Snapshot, queue: TenantQueue) -> Snapshot:
    """Snapshot in which this queue replaces the one of its name, if there is one."""
    queues = (*(one for one in snapshot.unbooked or snapshot.queues if one.name != queue.name), queue)
    return _booked(replace(snapshot, queues=queues, unbooked=queues if snapshot.unbooked else (), accounting=None))


def with_copies(snapshot: Snapshot, like: Node, count: int) -> Snapshot:
    """Snapshot with this many more nodes like this one, empty and ready."""

    def named(name: str, number: int) -> str:
        return f"{name}-copy-{number}"

    def copied(gpu: Gpu, number: int) -> Gpu:
        peers = frozenset(named(peer, number) for peer in gpu.peers)
        return replace(gpu, uuid=named(gpu.uuid, number), peers=peers, healthy=True, suspect=False, missing_since=None)

    copies = tuple(
        replace(
            like, name=named(like.name, number), gpus=tuple(copied(gpu, number) for gpu in like.gpus),
            ready=True, unready_because="", deleted=False,
        )
        for number in range(1, count + 1)
    )  # fmt: skip
    return _booked(replace(snapshot, nodes=(*snapshot.nodes, *copies), accounting=None))


def without_node(snapshot: Snapshot, node: str, leaving: Collection[JobKey]) -> Snapshot:
    """Snapshot in which the node takes no more work. These jobs have left their GPUs and wait again."""
    nodes = tuple(
        replace(one, ready=False, unready_because="cordoned") if one.name == node else one for one in snapshot.nodes
    )
    return _without(snapshot, nodes, leaving)


def without_gpu(snapshot: Snapshot, uuid: str, leaving: Collection[JobKey]) -> Snapshot:
    """Snapshot in which this GPU is not handed out any more. These jobs have left theirs and wait again."""

    def taken_out(node: Node) -> Node:
        if all(gpu.uuid != uuid for gpu in node.gpus):
            return node
        return replace(node, gpus=tuple(replace(gpu, healthy=gpu.healthy and gpu.uuid != uuid) for gpu in node.gpus))

    return _without(snapshot, tuple(map(taken_out, snapshot.nodes)), leaving)


def _without(snapshot: Snapshot, nodes: tuple[Node, ...], leaving: Collection[JobKey]) -> Snapshot:
    jobs = tuple(requeued(job, snapshot.now) if job.key in leaving else job for job in snapshot.jobs)
    return _booked(replace(snapshot, nodes=nodes, jobs=jobs, accounting=None))


def _booked(snapshot: Snapshot) -> Snapshot:
    """Snapshot whose queues have what is booked for them beside these nodes and quotas, as `ClusterState` gives it."""
    if not snapshot.unbooked:
        return snapshot
    unbooked, bookings = {one.name: one for one in snapshot.unbooked}, [one.booking for one in snapshot.bookings]
    queues, standings = with_bookings(unbooked, bookings, capacity_of(snapshot.nodes), snapshot.now)
    return replace(snapshot, queues=tuple(queues.values()), bookings=standings)


def jobs_on_gpu(snapshot: Snapshot, uuid: str) -> tuple[JobKey, ...]:
    """Jobs that hold this GPU or a part of it."""
    return tuple(job.key for job in snapshot.jobs if job.placement and uuid in uuids_of(job.placement))


def jobs_on(snapshot: Snapshot, node: str) -> tuple[JobKey, ...]:
    """Jobs that hold GPUs of this node."""
    held = (job for job in snapshot.jobs if job.placement is not None)
    return tuple(job.key for job in held if job.placement and any(part.node == node for part in job.placement.nodes))


def requeued(job: Job, now: float) -> Job:
    """The job as it would wait again if it had left now."""
    ran = job.ran_s + int(now - job.admitted_at) if job.admitted_at is not None else job.ran_s
    return replace(
        job, placement=None, admitted_at=None, requeued_at=now, ran_s=ran, evicting=False, resizing_from=None,
        backfilled_until=None,
    )  # fmt: skip


def _unbacked(before: QueueTree, after: QueueTree) -> tuple[UnbackedGuarantee, ...]:
    """Guarantees that count for less than they say, and whose missing part grows by the change."""
    missing = {(queue, *line.scope): _missing(line) for queue, line in _lines(before)}
    return tuple(
        UnbackedGuarantee(
            queue=queue, gpu_class=line.quota.gpu_class, zone=line.quota.zone, guaranteed=line.quota.guaranteed,
            effective=line.guaranteed,
        )
        for queue, line in _lines(after)
        if _missing(line) > missing.get((queue, *line.scope), 0)
    )[:MENTIONED]  # fmt: skip


def _lines(tree: QueueTree) -> Iterator[tuple[str, QuotaLine]]:
    return ((tree.queues[line.queue].name, line) for line in tree.quotas)


def _missing(line: QuotaLine) -> int:
    return line.quota.guaranteed - line.guaranteed


def _admitted(plan: Plan) -> dict[JobKey, str]:
    """Jobs that start, and on which nodes."""
    admitted = (one for one in plan.actions if isinstance(one, Admit))
    return {one.job: ", ".join(part.node for part in one.placement.nodes) for one in admitted}


@dataclass(frozen=True, slots=True)
class _Starts:
    plan: Plan
    estimates: Mapping[JobKey, Estimate]

    def at(self, key: JobKey) -> float | None:
        found = self.estimates.get(key)
        return None if found is None else found.p50

    def never(self, key: JobKey) -> str:
        """Why waiting alone does not help the job; empty if it does."""
        verdict = self.plan.verdicts.get(key)
        return verdict.reason.value if verdict is not None and verdict.reason.needs_change else ""


def _moved(
    before: _Starts, after: _Starts, aside: Collection[JobKey], mention: Callable[[JobKey, str], JobMention]
) -> tuple[list[MovedStart], list[MovedStart]]:
    """Jobs that wait in both and start at another time, largest difference first."""
    sooner: list[tuple[float, MovedStart]] = []
    later: list[tuple[float, MovedStart]] = []
    for key in sorted((before.plan.verdicts.keys() & after.plan.verdicts.keys()) - set(aside)):
        was, now = before.at(key), after.at(key)
        if before.never(key) and not after.never(key):
            sooner.append(
                (0.0, MovedStart(job=mention(key, "waiting alone does not help it now"), before=None, after=now))
            )
        elif after.never(key) and not before.never(key):
            why = f"waiting alone would not help it any more: {after.never(key)}"
            later.append((0.0, MovedStart(job=mention(key, why), before=was, after=None)))
        elif was is not None and now is not None and abs(now - was) >= WORTH_S:
            found = MovedStart(job=mention(key, ""), before=was, after=now)
            (sooner if now < was else later).append((-abs(now - was), found))
    return [one for _, one in sorted(sooner, key=_by_most)], [one for _, one in sorted(later, key=_by_most)]


def _by_most(one: tuple[float, MovedStart]) -> tuple[float, JobKey]:
    return one[0], one[1].job.job
