"""From the mirror to the core: keeps `ClusterState` fed with facts about nodes (`fleet`), queues and jobs.

A pod that may still run holds its GPUs whatever has become of its job, and where no committed placement covers it, a
remainder stands in (`remainders`). So nothing is handed out twice, after a crash or a deletion either.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cotenant.api.conversion.to_core import to_job, to_placement, to_queue
from cotenant.api.resources.trainingjobs import TrainingJob
from cotenant.api.validation.errors import DocumentError
from cotenant.controller.cluster.budgets import Budgets
from cotenant.controller.cluster.failover import handover_of
from cotenant.controller.cluster.nodes import Fleet
from cotenant.controller.cluster.orphaned_allocations import remainders, unreadable
from cotenant.controller.cluster.placement_validation import Claims, contradicted, misshapen
from cotenant.controller.cluster.told import Told
from cotenant.controller.informers.cache import Changed, Mirror
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.informers.pod_record import PodFacts
from cotenant.controller.settings import Settings
from cotenant.core.model.formatting import counted
from cotenant.core.model.lifecycle import HOLDING, Phase
from cotenant.core.model.objects import Job, JobKey, Placement
from cotenant.core.model.plan import Action
from cotenant.core.snapshot.snapshot import Snapshot
from cotenant.core.state.cluster_state import ClusterState
from cotenant.core.state.facts import JobGone, JobObserved, QueueGone, QueueObserved


@dataclass(frozen=True, slots=True)
class Readable:
    """A job as the core sees it, or what is wrong with it."""

    job: Job | None
    problem: str = ""


class World:
    def __init__(self, mirror: Mirror, settings: Settings, budgets: Budgets) -> None:
        self.mirror = mirror
        self.state = ClusterState(history_half_life_s=settings.history_half_life_s)
        self.told = Told(self.state)
        self.fleet = Fleet(mirror, self.told, settings)
        self.claims = Claims()
        self._reserve_mib = settings.reserve_head_mib
        self._budgets = budgets
        self._watched_since: float | None = None
        self._remainders: dict[str, set[JobKey]] = {}
        """uid of a job → keys of its remainders."""
        self._settled: list[tuple[Action, int | None]] = []
        self._readings: dict[JobKey, tuple[TrainingJob, frozenset[str], dict[str, int], Readable]] = {}
        """Key of a job → what it was last read from, and as what: every step of a job asks several times."""

    def rebuild(self, now: float) -> None:
        """A new leader looks at everything, goes on from what the last one wrote down, and gives what it does not find
        time to appear."""
        for key in list(self.mirror.jobs):
            self.mirror.touch(key)
        self.mirror.changed.uids |= set(self.mirror.workers)
        handover = handover_of(self.mirror.queues, self.mirror.jobs, lambda record: self.readable(record, now).job)
        self.state.restore(handover, now)
        self._watched_since = now
        self.told.stale = True

    def snapshot(self, now: float) -> Snapshot:
        return replace(
            self.state.snapshot(now), watched_since=now if self._watched_since is None else self._watched_since
        )

    def flush(self, now: float) -> Changed:
        """Tell the core what changed; returns what did, for the steps of the jobs concerned."""
        settled, self._settled = self._settled, []
        for action, version in settled:
            if version is None:
                self.state.forget(action)
                self.told.stale = True
            else:
                self.state.confirm(action, version)
        changed = self.mirror.drain()
        self.fleet.tell(changed.nodes, now)
        if changed.queues or self._budgets.moved():
            self._queues(now)
        for key in changed.jobs | self._timed_jobs(now):
            self._job(key, now)
        for uid in changed.uids:
            self._remains(uid)
        return changed

    def settle(self, action: Action, version: int | None) -> None:
        """An action was written (at that version) or not at all. Noted until the next flush: while a decision is being
        made in its thread, nobody writes to the state."""
        self._settled.append((action, version))

    def readable(self, record: JobRecord, now: float) -> Readable:
        if record.job is None:
            return Readable(None, record.problem)
        avoided = frozenset(one.node for one in record.status.excluded_nodes if one.until.timestamp() > now)
        classes = self.mirror.priority_classes
        last = self._readings.get(record.key)
        if last is not None and last[0] is record.job and last[1:3] == (avoided, classes):
            return last[3]
        found = self._read(record.job, avoided)
        self._readings[record.key] = (record.job, avoided, dict(classes), found)
        return found

    def _read(self, job: TrainingJob, avoided: frozenset[str]) -> Readable:
        try:
            read = to_job(job, priority_classes=self.mirror.priority_classes, excluded_nodes=avoided)
        except DocumentError as error:
            return Readable(None, "; ".join(str(one) for one in error.problems))
        # The launcher's own memory is part of the pod's request; counted for each worker, which is never too little.
        return Readable(replace(read, memory_mib=read.memory_mib + self._reserve_mib))

    def _queues(self, now: float) -> None:
        for name in {name for name, _ in self.told.all("queue")} - set(self.mirror.queues):
            self.told.observe("queue", name, QueueGone(name), None)
        for name, document in self.mirror.queues.items():
            spent = self._budgets.spent(name)
            queue = to_queue(document, namespaces=self.mirror.namespaces, spent_milli_gpu_seconds=spent)
            self.told.observe("queue", name, QueueObserved(queue), queue)

    def _timed_jobs(self, now: float) -> set[JobKey]:
        """Jobs that avoid a node for some time: the time may be over."""
        return {key for key, job in self.told.all("job") if job.excluded_nodes and job.placement is None}

    def _job(self, key: JobKey, now: float) -> None:
        record = self.mirror.jobs.get(key)
        if record is None:
            self._readings.pop(key, None)
        job = None if record is None else self._standing(record, now)
        if record is None or job is None:
            self._forget(key)
        else:
            self.claims.put(key, job)
            self.told.observe("job", key, JobObserved(job, record.version), job)
        if record is not None:
            self._remains(record.uid)

    def _standing(self, record: JobRecord, now: float) -> Job | None:
        """The job if it waits or holds; nothing when it is finished, suspended, invalid or on its way out."""
        phase = Phase(record.status.phase or Phase.PENDING)
        readable = self.readable(record, now)
        if phase in HOLDING and record.status.placement is not None:
            job = readable.job or unreadable(record, to_placement(record.status.placement))
            return replace(job, resizing_from=self._leaving(record))
        if phase is not Phase.PENDING or record.deleting or record.job is None or record.job.spec.suspend:
            return None
        return readable.job

    def _leaving(self, record: JobRecord) -> Placement | None:
        """Where pods of an earlier attempt still run: after a resize, or on a node that does not answer."""
        earlier = [pod for pod in self.mirror.pods_of(record.uid).values() if pod.held and _is_earlier(pod, record)]
        nodes = tuple(pod.worker.placement for pod in earlier if pod.worker and pod.worker.placement)
        return Placement(nodes=nodes) if nodes else None

    def _remains(self, uid: str) -> None:
        """One remainder for each attempt that still has pods which no committed placement covers."""
        wanted = remainders(self._uncovered(uid), uid)
        for key in self._remainders.get(uid, set()) - set(wanted):
            self._forget(key)
        for key, job in wanted.items():
            self.claims.put(key, job)
            self.told.observe("job", key, JobObserved(job), job)
        if wanted:
            self._remainders[uid] = set(wanted)
        else:
            self._remainders.pop(uid, None)

    def _forget(self, key: JobKey) -> None:
        self.claims.put(key, None)
        self.told.observe("job", key, JobGone(key), None)

    def _uncovered(self, uid: str) -> list[PodFacts]:
        """Pods of the job with this uid whose GPUs no committed placement speaks of."""
        pods = list(self.mirror.pods_of(uid).values())
        worker = pods[0].worker if pods else None
        record = self.mirror.jobs.get(f"{pods[0].namespace}/{worker.job}") if worker else None
        if record is None or record.uid != uid or record.status.phase not in HOLDING:
            return pods
        if record.status.placement is None:
            return pods
        # Of the running attempt, the status counts only as far as it says what the pod was given.
        placement = to_placement(record.status.placement)
        return [
            pod
            for pod in pods
            if not _is_earlier(pod, record) and (not _is_of_now(pod, record) or contradicted(placement, [pod]))
        ]

    def impossible(self, record: JobRecord, now: float) -> str:
        """What is wrong with a committed placement, as no decision of the loop would be; empty when nothing is.

        Whether it fits beside the others is asked only as long as pods have to be made for it.
        """
        if record.status.placement is None or record.status.phase not in {Phase.STARTING, Phase.RUNNING}:
            return ""
        placement = to_placement(record.status.placement)
        gang = [pod for pod in self.mirror.pods_of(record.uid).values() if _is_of_now(pod, record)]
        job = self.readable(record, now).job
        said = (job and (misshapen(job, placement) or _miscounted(record))) or contradicted(placement, gang)
        ranks = [pod for pod in gang if pod.worker and not pod.worker.server]
        if said or record.status.phase is Phase.RUNNING or len(ranks) >= len(placement.nodes):
            return said
        self.claims.put(record.key, self._standing(record, now))  # it may have been committed since the last flush
        nodes = {part.node: self.fleet.node(part.node) for part in placement.nodes}
        return self.claims.conflict(
            record.key, placement, {name: node for name, node in nodes.items() if node is not None}
        )


def _miscounted(record: JobRecord) -> str:
    """An attempt of a version that put servers into the pods of the ranks has none of their own, and is left alone."""
    held = (record.status.placement.servers or 0) if record.status.placement else 0
    if held in {0, record.servers}:
        return ""
    return f"it has {counted(held, 'parameter server')}, and the job asks for {record.servers}"


def _is_earlier(pod: PodFacts, record: JobRecord) -> bool:
    return pod.worker is not None and pod.worker.attempt < record.status.attempts


def _is_of_now(pod: PodFacts, record: JobRecord) -> bool:
    return pod.worker is not None and pod.worker.attempt == record.status.attempts
