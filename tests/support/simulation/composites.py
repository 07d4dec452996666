"""Sweeps and sessions that the people of a simulated world make, what befalls them, and what must hold of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Final, TypeAlias

from cotenant import names
from cotenant.controller.client.kube import SESSIONS, SWEEPS, TRAINING_JOBS, Document, Resource, key_of
from cotenant.controller.informers.quarantine import CONDITION
from cotenant.core.model.lifecycle import TERMINAL
from tests.support.simulation.api_server import ApiServer, Change
from tests.support.simulation.machine import Machine, stamp
from tests.support.simulation.running_pod import Program, RunningPod

METRIC: Final = "loss"
"""Reported by every program that ends well."""
KINDS: Final = ("CompositeDeleted", "CompositeSuspended", "CompositeSuspended")
CALLS: Final = ("POST trainingjobs/*", "PATCH sweeps/*", "PATCH sessions/*", "PATCH trainingjobs/*")


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlan:
    resource: ClassVar[Resource] = SWEEPS
    name: str
    queue: str
    at: float
    trials: int
    parallelism: int
    program: Program
    """Of every trial."""
    failed_max: int = 3

    def document(self) -> Document:
        search = {"name": "n", "env": "N", "choices": [str(number) for number in range(self.trials)]}
        spec = {
            "algorithm": "Grid",
            "objective": {"metric": METRIC, "goal": "Minimize"},
            "parameters": [search],
            "maxTrials": self.trials,
            "parallelism": self.parallelism,
            "maxFailedTrials": self.failed_max,
            "template": {
                "spec": {"queue": self.queue, "gpu": {"count": 1}, "runtime": {"entrypoint": "train:main"}},
            },
        }
        return _document("Sweep", self.name, self.queue, spec)

    def makes(self, job: str) -> bool:
        """The job of this name would be one of its trials."""
        sweep, _, number = job.rpartition("-")
        return sweep == self.name and number.isdigit()

    def __str__(self) -> str:
        return f"{self.queue}/{self.name}: sweep of {self.trials} trials, {self.parallelism} at the same time"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPlan:
    resource: ClassVar[Resource] = SESSIONS
    name: str
    queue: str
    at: float
    program: Program
    """Its application, which somebody ends after a while."""

    def document(self) -> Document:
        spec = {"application": "Shell", "queue": self.queue, "gpu": {"memoryFraction": "0.4"}, "gracePeriod": "10s"}
        return _document("Session", self.name, self.queue, spec)

    def makes(self, job: str) -> bool:
        """It is the name of its job."""
        return job == f"{self.name}-session"

    def __str__(self) -> str:
        return f"{self.queue}/{self.name}: session of {self.program.runs_s:.0f} s"


CompositePlan: TypeAlias = SweepPlan | SessionPlan


def _document(kind: str, name: str, namespace: str, spec: Mapping[str, Any]) -> Document:
    metadata = {"name": name, "namespace": namespace, "creationTimestamp": stamp()}
    return {"apiVersion": names.API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def draw_composites(dice: Random, queues: Sequence[str], moments: Sequence[float]) -> tuple[CompositePlan, ...]:
    """None in every third world, otherwise one or two, at the same moments as other incidents."""
    return tuple(_drawn(dice, number, queues, moments) for number in range(dice.choice((0, 1, 2))))


def _drawn(dice: Random, number: int, queues: Sequence[str], moments: Sequence[float]) -> CompositePlan:
    queue, at = dice.choice(queues), round(dice.choice(moments) + dice.uniform(-0.5, 2.0), 3)
    program = Program(
        runs_s=dice.choice((5.0, 20.0, 60.0)),
        code=dice.choice((0, 0, 0, 1)),
        ends_after_s=dice.choice((0.5, 3.0, 60.0)),
    )
    if dice.random() < 0.4:
        return SessionPlan(name=f"session{number}", queue=queue, at=at, program=program)
    trials, parallelism = dice.randint(1, 5), dice.choice((1, 1, 2, 3))
    return SweepPlan(
        name=f"sweep{number}", queue=queue, at=at, trials=trials, parallelism=parallelism, program=program,
        failed_max=dice.choice((0, 2)),
    )  # fmt: skip


class CompositeInvariants:
    """No trial is made twice, nor more of them than may run at the same time; a session runs once; nothing is lost."""

    def __init__(self, server: ApiServer, plans: Sequence[CompositePlan], fail: Callable[[str], None]) -> None:
        self._server = server
        self._plans = {(plan.resource, f"{plan.queue}/{plan.name}"): plan for plan in plans}
        self._fail = fail
        self._made: set[tuple[str, str]] = set()
        """(uid of the owner, name of a job that was made for it)."""

    def look_at(self, change: Change) -> None:
        """Judge a TrainingJob that a replica makes."""
        if change.resource != TRAINING_JOBS or change.deleted or change.before is not None:
            return
        owners = change.document["metadata"].get("ownerReferences") or []
        if not owners:
            return
        uid, kind = owners[0]["uid"], owners[0]["kind"]
        if kind == "Sweep" and (uid, change.key) in self._made:
            self._fail(f"trial made twice: {change.key}")
        self._made.add((uid, change.key))
        going_on = [key for key, job in self._jobs_of(uid) if _phase(job) not in TERMINAL]
        plan = self._plans.get((SWEEPS, f"{change.document['metadata']['namespace']}/{owners[0]['name']}"))
        most = plan.parallelism if isinstance(plan, SweepPlan) else 1
        if len(going_on) > most:
            self._fail(f"more trials than allowed: {', '.join(going_on)}, and {most} may run at the same time")

    def check_start(self, machines: Mapping[str, Machine], pod: RunningPod, gone: Callable[[RunningPod], bool]) -> None:
        """Judge the start of an application. `gone`: nobody can wait for the end of that one."""
        if not any(plan.makes(pod.grant.job) for plan in self._plans.values() if isinstance(plan, SessionPlan)):
            return
        for machine in machines.values():
            for one in machine.pods.values():
                same = (one.grant.namespace, one.grant.job) == (pod.grant.namespace, pod.grant.job)
                if one is not pod and same and not gone(one):
                    self._fail(f"session twice: {pod.key} starts while {one.key} runs on {machine.name}")

    def held_back(self) -> bool:
        """True if one of them is in quarantine, and is tried again after a pause."""
        return any(
            condition["type"] == CONDITION and condition["status"] == "True"
            for document in self._documents()
            for condition in (document.get("status") or {}).get("conditions") or ()
        )

    def at_end(self) -> Iterator[str]:
        """Violations once nothing happens any more."""
        for document in self._documents():
            key, status = key_of(document["metadata"]), document.get("status") or {}
            said = f"{document['kind']} {key} is {status.get('phase')} at the end ({status.get('message')})"
            jobs = [job for _, job in self._jobs_of(document["metadata"]["uid"])]
            waiting = any(_phase(job) not in TERMINAL for job in jobs)
            phase, suspended = status.get("phase"), bool(document["spec"].get("suspend"))
            if phase in {"Succeeded", "Ended"} or (phase == "Failed" and document["kind"] == "Sweep"):
                if waiting:
                    yield f"left over: {said}, and one of its jobs is not"
            elif phase != "Failed" and not (phase == "Suspended" and suspended) and not (waiting and not suspended):
                yield f"lost: {said}"

    def _documents(self) -> Iterator[Document]:
        for resource in (SWEEPS, SESSIONS):
            yield from (document for _, document in sorted(self._server.objects[resource].items()))

    def _jobs_of(self, uid: str) -> Iterator[tuple[str, Document]]:
        for key, job in sorted(self._server.objects[TRAINING_JOBS].items()):
            if any(owner["uid"] == uid for owner in job["metadata"].get("ownerReferences") or ()):
                yield key, job


def _phase(job: Document) -> str:
    return str((job.get("status") or {}).get("phase") or "")
