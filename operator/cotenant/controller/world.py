"""From the mirror to the core: keeps `ClusterState` fed with facts, and puts together the situation of one job.

A pod that may still run holds its GPUs whatever has become of its job. Where no committed placement covers it (the job
was deleted, has finished, or has left a dead node behind) a *remainder* stands in: a job that is leaving, read from the
annotation of its pods. So nothing is handed out twice, after a crash or a deletion either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from cotenant.api.conversion import to_job, to_placement, to_queue
from cotenant.api.errors import DocumentError
from cotenant.api.gpunodes import HEARTBEAT_STALE_S, Violation
from cotenant.api.jobstatus import Isolation
from cotenant.api.nodes import to_node
from cotenant.controller.attempt import GpuFacts
from cotenant.controller.budgets import Budgets
from cotenant.controller.isolation import NodeIsolation, RuntimePath, level
from cotenant.controller.mirror import Changed, JobRecord, Mirror
from cotenant.controller.pods import PodFacts
from cotenant.controller.settings import Settings
from cotenant.controller.taints import untolerated
from cotenant.core.events import ClusterEvent, JobGone, JobSeen, NodeGone, NodeSeen, QueueGone, QueueSeen
from cotenant.core.lifecycle import HOLDING, Phase
from cotenant.core.model import GpuRequest, Job, JobKey, Placement
from cotenant.core.plan import Action
from cotenant.core.state import ClusterState


@dataclass(frozen=True, slots=True)
class Readable:
    """A job as the core sees it, or what is wrong with it."""

    job: Job | None
    problem: str = ""


class World:
    def __init__(self, mirror: Mirror, settings: Settings, budgets: Budgets) -> None:
        self.mirror = mirror
        self.state = ClusterState()
        self.stale = True
        """Something that decisions depend on has changed since this was last cleared."""
        self.gpus: dict[str, GpuFacts] = {}
        self._settings = settings
        self._tolerations = settings.toleration_list
        self._budgets = budgets
        self._facts: dict[tuple[str, str], Any] = {}
        """(kind, name) → the last fact given to the core: what did not change is not news."""
        self._remainders: dict[str, set[JobKey]] = {}
        """uid of a job → keys of its remainders."""
        self._settled: list[tuple[Action, int | None]] = []

    def flush(self, now: float) -> Changed:
        """Tell the core what changed; returns what did, for the steps of the jobs concerned."""
        settled, self._settled = self._settled, []
        for action, version in settled:
            if version is None:
                self.state.forget(action)
                self.stale = True
            else:
                self.state.confirm(action, version)
        changed = self.mirror.drain()
        self._nodes(changed.nodes, now)
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
        try:
            job = to_job(record.job, priority_classes=self.mirror.priority_classes, excluded_nodes=avoided)
        except DocumentError as error:
            return Readable(None, "; ".join(str(one) for one in error.problems))
        # The launcher's own memory is part of the pod's request; counted for each worker, which is never too little.
        return Readable(replace(job, memory_mib=job.memory_mib + self._settings.reserve_head_mib))

    def isolation_of(self, node: str) -> NodeIsolation:
        seen = self.mirror.gpu_nodes.get(node)
        if seen is None:
            return NodeIsolation(simulated=False, best=Isolation.COOPERATIVE)
        return NodeIsolation(simulated=seen.status.simulated, best=seen.status.isolation)

    def path(self, node: str) -> RuntimePath:
        return RuntimePath(self.isolation_of(node), self._settings.runtime_class)

    def level(self, placement: Placement) -> Isolation:
        return level([self.isolation_of(node.node) for node in placement.nodes])

    def milli(self, placement: Placement) -> int:
        """Milli-GPU held: of each grant the larger of its two dimensions, rounded up."""
        return sum(
            self.grant_milli(gpu.uuid, gpu.memory_mib, gpu.compute_milli)
            for node in placement.nodes
            for rank in node.ranks
            for gpu in rank.gpus
        )

    def grant_milli(self, uuid: str, memory_mib: int, compute_milli: int) -> int:
        facts = self.gpus.get(uuid)
        return compute_milli if facts is None else max(compute_milli, -(-1000 * memory_mib // facts.memory_mib))

    def violations(self, pods: Mapping[str, PodFacts]) -> dict[str, Violation]:
        found: dict[str, Violation] = {}
        for node in {pod.node for pod in pods.values() if pod.node}:
            seen = self.mirror.gpu_nodes.get(node)
            found |= {violation.pod_uid: violation for violation in (seen.status.violations if seen else ())}
        return found

    def _observe(self, kind: str, name: str, event: ClusterEvent, fact: Any) -> None:
        known = self._facts.get((kind, name))
        if fact is None:
            if self._facts.pop((kind, name), None) is None:
                return
        elif known == fact:
            if isinstance(event, JobSeen):
                self.state.observe(event)  # nothing new, but its version may confirm an assumption
            return
        else:
            self._facts[kind, name] = fact
        self.stale = True
        self.state.observe(event)

    def _nodes(self, names: set[str], now: float) -> None:
        for name in names | self._turned(now):
            facts, seen = self.mirror.nodes.get(name), self.mirror.gpu_nodes.get(name)
            if facts is None or seen is None:
                self._observe("node", name, NodeGone(name), None)
                continue
            if untolerated(self.mirror.taints.get(name, ()), self._tolerations):
                facts = replace(facts, ready=False)
            load = self.mirror.load.get(name)
            cpu, memory = (load.cpu_milli, load.memory_mib) if load else (0, 0)
            node = to_node(seen, facts, now=now, cpu_used=cpu, memory_used=memory)
            for gpu in node.gpus:
                self.gpus[gpu.uuid] = GpuFacts(memory_mib=gpu.memory_mib, simulated=seen.status.simulated)
            self._observe("node", name, NodeSeen(node), node)

    def _turned(self, now: float) -> set[str]:
        """Nodes whose heartbeat has gone stale since they were last looked at."""
        turned = set()
        for name, seen in self.mirror.gpu_nodes.items():
            known = self._facts.get(("node", name))
            beat = seen.status.heartbeat
            if known is not None and known.ready and (beat is None or now - beat.timestamp() > HEARTBEAT_STALE_S):
                turned.add(name)
        return turned

    def _queues(self, now: float) -> None:
        for name in {name for kind, name in self._facts if kind == "queue"} - set(self.mirror.queues):
            self._observe("queue", name, QueueGone(name), None)
        for name, document in self.mirror.queues.items():
            spent = self._budgets.spent(name)
            queue = to_queue(document, namespaces=self.mirror.namespaces, spent_milli_gpu_seconds=spent)
            self._observe("queue", name, QueueSeen(queue), queue)

    def _timed_jobs(self, now: float) -> set[JobKey]:
        """Jobs that avoid a node for some time: the time may be over."""
        return {
            key
            for (kind, key), job in self._facts.items()
            if kind == "job" and job.excluded_nodes and job.placement is None
        }

    def _job(self, key: JobKey, now: float) -> None:
        record = self.mirror.jobs.get(key)
        job = None if record is None else self._standing(record, now)
        if record is None or job is None:
            self._observe("job", key, JobGone(key), None)
        else:
            self._observe("job", key, JobSeen(job, record.version), job)
        if record is not None:
            self._remains(record.uid)

    def _standing(self, record: JobRecord, now: float) -> Job | None:
        """The job if it waits or holds; nothing when it is finished, suspended, invalid or on its way out."""
        phase = Phase(record.status.phase or Phase.PENDING)
        readable = self.readable(record, now)
        if phase in HOLDING and record.status.placement is not None:
            job = readable.job or _unreadable(record, to_placement(record.status.placement))
            return replace(job, leaving=self._leaving(record))
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
        attempts: dict[tuple[str, int], list[PodFacts]] = {}
        for pod in self.mirror.pods_of(uid).values():
            if pod.held and pod.worker and pod.worker.placement and not self._covered(pod):
                attempts.setdefault((f"{pod.namespace}/{pod.worker.job}", pod.worker.attempt), []).append(pod)
        wanted = {f"{key}#{uid}-{number}": pods for (key, number), pods in attempts.items()}
        for key in self._remainders.get(uid, set()) - set(wanted):
            self._observe("job", key, JobGone(key), None)
        for key, pods in wanted.items():
            job = _remainder(key, pods)
            self._observe("job", key, JobSeen(job), job)
        if wanted:
            self._remainders[uid] = set(wanted)
        else:
            self._remainders.pop(uid, None)

    def _covered(self, pod: PodFacts) -> bool:
        if pod.worker is None:
            return True
        record = self.mirror.jobs.get(f"{pod.namespace}/{pod.worker.job}")
        return (
            record is not None
            and record.uid == pod.worker.job_uid
            and record.status.phase in HOLDING
            and record.status.placement is not None
            and pod.worker.attempt <= record.status.attempts
        )


def _is_earlier(pod: PodFacts, record: JobRecord) -> bool:
    return pod.worker is not None and pod.worker.attempt < record.status.attempts


def _unreadable(record: JobRecord, placement: Placement) -> Job:
    """It runs, though its spec cannot be read any more: it keeps what it holds, and nobody moves it."""
    return Job(
        key=record.key,
        uid=record.uid,
        namespace=record.namespace,
        queue="",
        workers_min=placement.workers,
        workers_max=placement.workers,
        gpu=GpuRequest(),
        submitted_at=0.0,
        placement=placement,
        admitted_at=record.status.placement.admitted_at.timestamp() if record.status.placement else 0.0,
        preemptible=False,
    )


def _remainder(key: JobKey, pods: list[PodFacts]) -> Job:
    ordered = sorted(pods, key=lambda pod: pod.worker.node_rank if pod.worker else 0)
    nodes = tuple(pod.worker.placement for pod in ordered if pod.worker and pod.worker.placement)
    placement = Placement(nodes=nodes)
    workers = max(1, placement.workers)
    return Job(
        key=key,
        uid=ordered[0].worker.job_uid if ordered[0].worker else "",
        namespace=ordered[0].namespace,
        queue=ordered[0].worker.queue if ordered[0].worker else "",
        workers_min=workers,
        workers_max=workers,
        gpu=GpuRequest(),
        cpu_milli=sum(pod.cpu_milli for pod in ordered) // workers,
        memory_mib=sum(pod.memory_mib for pod in ordered) // workers,
        submitted_at=0.0,
        placement=placement,
        admitted_at=0.0,
        preemptible=False,
        evicting=True,
    )
