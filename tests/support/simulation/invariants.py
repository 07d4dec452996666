"""What must hold at every step of a simulated world, and what at its end. A violation is a sentence.

What counts is what really runs on the machines and what the API server really has, not what any cache shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from cotenant import names
from cotenant.controller.client.kube import LEASES, PODS, QUEUES, SESSIONS, SWEEPS, TRAINING_JOBS, Document
from cotenant.core.model.lifecycle import HOLDING, TERMINAL
from cotenant.core.model.objects import WHOLE
from tests.support.simulation.api_server import ApiServer, Change
from tests.support.simulation.composites import CompositeInvariants, CompositePlan
from tests.support.simulation.machine import GPU_MIB, Machine
from tests.support.simulation.replica import Replica
from tests.support.simulation.running_pod import RunningPod

EDITOR: Final = "somebody who edits a status"
KNOWN_S: Final = 400.0
"""Time within which a replica has seen every change, by its watch or its next list."""


class ViolationError(AssertionError):
    """An invariant does not hold."""


class Invariants:
    def __init__(
        self,
        server: ApiServer,
        machines: Mapping[str, Machine],
        replicas: Mapping[str, Replica],
        *,
        composites: Sequence[CompositePlan],
        now: Callable[[], float],
        tell: Callable[[str], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        self._server = server
        self._machines = machines
        self._replicas = replicas
        self._now = now
        self._tell = tell
        self._end_with = fail
        self.composites = CompositeInvariants(server, composites, self._fail)
        self._committed: dict[tuple[str, int], Document] = {}
        """(uid of a job, attempt) → the placement that a replica committed for it."""
        self._ready: dict[tuple[str, int], set[int]] = {}
        """(uid of a job, attempt) → node ranks whose processes have started."""
        self._finished: set[str] = set()
        self._edited: set[str] = set()
        """Uids of jobs whose status somebody has written."""
        self.written_at = 0.0
        self.last_write = ""

    def look_at(self, change: Change) -> None:
        """Judge one write."""
        if change.by[:1] not in self._replicas or not change.by[1:].isdigit():
            if change.by == EDITOR:
                self._edited.add(change.uid)
            if change.resource in {TRAINING_JOBS, QUEUES, PODS, SWEEPS, SESSIONS}:
                self.written_at, self.last_write = self._now(), describe(change)
            return
        if change.resource == LEASES:
            return
        self.written_at, self.last_write = self._now(), describe(change)
        self._tell(describe(change))
        if change.resource == TRAINING_JOBS and not change.deleted and change.uid not in self._edited:
            self._check_status(change)
            self.composites.look_at(change)
        elif change.resource == PODS and change.before is None:
            self._check_pod(change)

    def check_writer(self, by: str, call: str) -> None:
        """Check a write that arrives, even if it will be refused: its sender must hold the Lease."""
        lease = self._server.objects[LEASES].get("cotenant-system/cotenant-operator")
        holder = lease["spec"]["holderIdentity"] if lease else ""
        if holder != by and "leases/" not in call:
            self._fail(f"written without the Lease: {by} sends {call}, and {holder or 'nobody'} holds it")

    def check_start(self, machine: Machine, pod: RunningPod) -> None:
        """Judge the start of processes: the GPUs of its machine, and what else runs of its job."""
        used: Counter[tuple[str, str]] = Counter()
        for one in machine.pods.values():
            for uuid, (memory, compute) in one.shares().items():
                used[uuid, "MiB"] += memory
                used[uuid, "milli"] += compute
        for (uuid, unit), amount in sorted(used.items()):
            most = GPU_MIB if unit == "MiB" else WHOLE
            if amount > most:
                holders = ", ".join(sorted(one.key for one in machine.pods.values() if uuid in one.shares()))
                self._fail(f"GPU given twice: {amount} {unit} of {uuid}, which has {most}, run for {holders}")
        for other in self._machines.values():
            for one in other.pods.values():
                if one is pod or one.grant.uid != pod.grant.uid:
                    continue
                same = one.attempt == pod.attempt
                if same and one.grant.node_rank == pod.grant.node_rank:
                    self._fail(f"started twice: {pod.key} runs on {other.name} and {machine.name}")
                if not same and not self._is_out_of_reach(one):
                    self._fail(f"started twice: {pod.key} starts while {one.key} runs on {other.name}")
        self.composites.check_start(self._machines, pod, self._is_out_of_reach)
        self._ready.setdefault(pod.attempt, set()).add(pod.grant.node_rank)

    def check_processes(self) -> None:
        """Judge the replicas' processes."""
        for replica in self._replicas.values():
            if replica.failures:
                self._fail(f"a process ends by itself: {replica.failures[0]}")

    def check_end(self) -> None:
        """Check the final state: everything possible was done, and nothing is left over."""
        for found in (*self._at_end(), *self.composites.at_end()):
            self._fail(found)

    def _fail(self, sentence: str) -> None:
        self._end_with(ViolationError(sentence))

    def _check_status(self, change: Change) -> None:
        job, status = change.document, change.document.get("status") or {}
        before = (change.before or {}).get("status") or {}
        uid, attempt = job["metadata"]["uid"], status.get("attempts", 0)
        if status.get("placement") and (uid, attempt) not in self._committed:
            self._committed[uid, attempt] = status["placement"]
            self._check_commit(change)
        if status.get("phase") == "Running" and before.get("phase") != "Running":
            nodes = range(len(status["placement"]["nodes"]))
            if missing := sorted(set(nodes) - self._ready.get((uid, attempt), set())):
                self._fail(f"gang not whole: {change.key} is Running, and {missing} of attempt {attempt} never started")
        if status.get("phase") in TERMINAL:
            self._finished.add(uid)
        elif uid in self._finished:
            self._fail(f"started twice: {change.key} had finished, and is {status.get('phase')}")

    def _check_commit(self, change: Change) -> None:
        """A placement is committed: beside all others that are."""
        used: Counter[tuple[str, str]] = Counter()
        held: Counter[str] = Counter()
        for job in self._server.objects[TRAINING_JOBS].values():
            for gpu in self._grants(job):
                used[gpu["uuid"], "MiB"] += gpu["memoryMiB"]
                used[gpu["uuid"], "milli"] += gpu["computeMilli"]
                held[job["spec"]["queue"]] += max(gpu["computeMilli"], gpu["memoryMiB"] * WHOLE // GPU_MIB)
        for (uuid, unit), amount in sorted(used.items()):
            if amount > (GPU_MIB if unit == "MiB" else WHOLE):
                self._fail(f"GPU given twice: {amount} {unit} of {uuid} are committed, the last to {change.key}")
        name = change.document["spec"]["queue"]
        limits = [queue["spec"]["quotas"][0]["limit"] for queue in self._queues_lately(name)]
        if limits and held[name] > max(limits) * WHOLE:
            self._fail(f"quota broken: queue {name} holds {held[name]} milli-GPU, its limit is {limits}")

    def _queues_lately(self, name: str) -> Iterator[Document]:
        """The queue as a replica may have seen it last."""
        changes = [one for one in self._server.changes[QUEUES] if one.key == name]
        times = [one.at for one in changes]
        for index, change in enumerate(changes):
            if index == len(changes) - 1 or times[index + 1] > self._now() - KNOWN_S:
                yield change.document

    def _grants(self, job: Document) -> Iterator[Mapping[str, Any]]:
        """What a job holds by its status, as far as a replica has committed it."""
        status = job.get("status") or {}
        placement = status.get("placement")
        committed = self._committed.get((job["metadata"]["uid"], status.get("attempts", 0)))
        if status.get("phase") in HOLDING and placement and placement == committed:
            for node in placement["nodes"]:
                for rank in node["ranks"]:
                    yield from rank["gpus"]

    def _check_pod(self, change: Change) -> None:
        labels = change.document["metadata"]["labels"]
        uid, attempt = labels[names.LABEL_JOB_UID], int(labels[names.LABEL_ATTEMPT])
        if uid in self._edited:
            return
        if uid in self._finished:
            self._fail(f"started twice: {change.key} is made for a job that had finished")
        if (uid, attempt) not in self._committed:
            self._fail(f"started without a commit: {change.key}")

    def _at_end(self) -> Iterator[str]:
        for key, job in sorted(self._server.objects[TRAINING_JOBS].items()):
            status = job.get("status") or {}
            phase = status.get("phase")
            if phase == "Pending" and not (status.get("pending") or {}).get("message"):
                yield f"lost: {key} waits, and nobody says why"
            elif phase not in {"Pending", "Suspended", "Invalid", *TERMINAL}:
                yield f"lost: {key} is {phase} at the end ({status.get('message')})"
        uids = {job["metadata"]["uid"] for job in self._server.objects[TRAINING_JOBS].values()}
        for key, pod in sorted(self._server.objects[PODS].items()):
            if pod["status"].get("phase") not in {"Succeeded", "Failed"}:
                yield f"left over: pod {key} is {pod['status'].get('phase')} at the end"
            elif pod["metadata"]["labels"][names.LABEL_JOB_UID] not in uids:
                yield f"left over: pod {key} of a job that is gone"
        for machine in self._machines.values():
            for running in machine.pods.values():
                yield f"left over: processes of {running.key} on {machine.name}"

    def _is_out_of_reach(self, pod: RunningPod) -> bool:
        """True if nobody can wait for its end: it was cut off, hangs, or was deleted by force."""
        hangs = pod.asked_to_end and pod.ends_at == float("inf")
        return pod.was_cut_off or hangs or pod.key not in self._server.objects[PODS]


def describe(change: Change) -> str:
    if change.resource == TRAINING_JOBS and not change.deleted:
        status = change.document.get("status") or {}
        attempt = f", attempt {status['attempts']}" if status.get("attempts") else ""
        what = f"{change.key} is {status.get('phase')}{attempt}: {status.get('reason')}: {status.get('message')}"
    else:
        verb = "removes" if change.deleted else "makes" if change.before is None else "writes"
        what = f"{verb} {change.resource.plural}/{change.key}"
    return f"{change.by}: {what}"
