"""What happens in one simulation, as a value that is drawn from a seed: machines, queues, jobs, and what goes wrong."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, Final

from cotenant import names
from cotenant.controller.client.kube import Document
from tests.support.simulation import composites
from tests.support.simulation.api_client import CallFault
from tests.support.simulation.composites import CompositePlan, draw_composites
from tests.support.simulation.machine import stamp
from tests.support.simulation.running_pod import Program

CALM_AT_S: Final = 240.0
"""From here on nothing goes wrong any more."""
CALLS: Final = (
    "PATCH trainingjobs/*",
    "PATCH trainingjobs/*",
    "POST pods/*",
    "DELETE pods/*",
    "POST *",
    "GET *",
    "PATCH queues/*",
)
LEASE_CALLS: Final = ("PATCH leases/*", "GET leases/*")


WATCHED_OFTEN: Final = ("trainingjobs", "pods", "gpunodes", "nodes", "queues")
KINDS: Final = {
    "Kill": "r", "Terminate": "r", "Pause": "r", "Unreachable": "r", "ClockJump": "r", "WatchBroken": "r",
    "NodeCutOff": "m", "NodeRestarted": "m", "AgentAway": "m", "Cordoned": "m",
    "JobDeleted": "j", "PodsDeleted": "j", "Suspended": "j", "LabelsEdited": "j", "StatusEdited": "j",
    "QuotaEdited": "q",
}  # fmt: skip
"""Kind of an incident → whom it befalls: the replica that leads, a machine, a job or a queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    machines: tuple[str, ...]
    jobs: tuple[str, ...]
    queues: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    name: str
    queue: str
    at: float
    workers: int
    gpu: tuple[tuple[str, Any], ...]
    program: Program
    grace_s: int = 10
    retries: int = 0
    priority: int = 0
    min_workers: int = 0

    def document(self) -> Document:
        spec: dict[str, Any] = {
            "queue": self.queue,
            "workers": self.workers,
            "gpu": dict(self.gpu),
            "runtime": {"entrypoint": "train:main"},
            "gracePeriod": f"{self.grace_s}s",
            "retries": self.retries,
            "priority": self.priority,
        }
        if self.min_workers:
            spec["minWorkers"] = self.min_workers
        metadata = {"name": self.name, "namespace": self.queue, "creationTimestamp": stamp()}
        return {"apiVersion": names.API_VERSION, "kind": "TrainingJob", "metadata": metadata, "spec": spec}

    def __str__(self) -> str:
        size = f"{self.workers} × {dict(self.gpu)}, runs {self.program.runs_s:.0f} s, ends with {self.program.code}"
        return f"{self.queue}/{self.name}: {size}{', hangs' if self.program.hangs else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Something that goes wrong, or that somebody does."""

    at: float
    kind: str
    """A key of `incidents.INCIDENTS`."""
    target: str = ""
    """A replica, machine, job, queue or plural."""
    call: str = ""
    seconds: float = 0.0
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    seed: int
    machines: tuple[int, ...]
    """Number of GPUs of each."""
    queues: tuple[tuple[str, int, int], ...]
    """Name, guaranteed, limit."""
    jobs: tuple[JobPlan, ...]
    incidents: tuple[Incident, ...]
    composites: tuple[CompositePlan, ...] = ()
    replicas: int = 2
    calm_at_s: float = CALM_AT_S


def draw(seed: int, *, sweeps_and_sessions: bool = False) -> Scenario:
    """Jobs come and things go wrong at the same few moments: what goes wrong alone is survived by much less. The jobs
    of a seed, and what befalls them, are the same with sweeps and sessions beside them.
    """
    dice = Random(f"scenario {seed}")
    machines = tuple(dice.choice((1, 2, 2, 4)) for _ in range(dice.randint(1, 3)))
    total = sum(machines)
    queues = tuple(
        (name, dice.randint(0, total // 2), dice.randint(max(1, total // 2), total))
        for name in ("red", "blue")[: dice.randint(1, 2)]
    )
    moments = [dice.uniform(2.0, CALM_AT_S - 30.0) for _ in range(dice.randint(1, 4))]
    jobs = tuple(_job(dice, number, queues, total, dice.choice(moments)) for number in range(dice.randint(2, 6)))
    targets = Targets(
        machines=tuple(f"n{index}" for index in range(len(machines))),
        jobs=tuple(f"{job.queue}/{job.name}" for job in jobs),
        queues=tuple(name for name, *_ in queues),
    )
    drawn = (_incident(dice, targets, dice.choice(moments)) for _ in range(dice.randint(2, 14)))
    incidents = list(drawn)
    dice = Random(f"composites {seed}")
    made = draw_composites(dice, targets.queues, moments) if sweeps_and_sessions else ()
    if made:
        incidents += [_incident_of_composites(dice, made, dice.choice(moments)) for _ in range(dice.randint(0, 5))]
    return Scenario(
        seed=seed, machines=machines, queues=queues, jobs=jobs, composites=made,
        incidents=tuple(sorted(incidents, key=lambda one: one.at)),
    )  # fmt: skip


def _job(dice: Random, number: int, queues: tuple[tuple[str, int, int], ...], total: int, moment: float) -> JobPlan:
    ask: tuple[tuple[str, Any], ...] = (("count", 1),)
    if dice.random() < 0.4:
        ask = (("memoryFraction", dice.choice(("0.25", "0.4", "0.5"))),)
    elif dice.random() < 0.2:
        ask = (("count", 2),)
    workers = dice.choice((1, 1, 2, 2, 3, total))
    program = Program(
        runs_s=dice.choice((5.0, 20.0, 60.0, 120.0)),
        code=dice.choice((0, 0, 0, 0, 1)),
        ends_after_s=dice.choice((0.5, 3.0, 60.0)),
        hangs=dice.random() < 0.05,
    )
    return JobPlan(
        name=f"job{number}",
        queue=dice.choice(queues)[0],
        at=round(moment + dice.uniform(-0.5, 2.0), 3),
        workers=workers,
        gpu=ask,
        program=program,
        grace_s=dice.choice((1, 10, 30)),
        retries=dice.choice((0, 0, 2)),
        priority=dice.choice((0, 0, 0, 10)),
        min_workers=1 if workers > 1 and dice.random() < 0.2 else 0,
    )


def _incident_of_composites(dice: Random, made: tuple[CompositePlan, ...], moment: float) -> Incident:
    at = round(max(0.0, moment + dice.choice((1.0, 5.0, 30.0)) * dice.uniform(-0.2, 1.0)), 3)
    seconds = round(dice.choice((0.05, 0.5, 5.0, 20.0)) * dice.uniform(0.5, 1.5), 3)
    if dice.random() < 0.7:
        fault, call = dice.choice(tuple(CallFault)), dice.choice(composites.CALLS)
        return Incident(at=at, kind=fault.value, target="leader", call=call, seconds=seconds)
    befallen = dice.choice(made)
    target = f"{befallen.queue}/{befallen.name}"
    return Incident(at=at, kind=dice.choice(composites.KINDS), target=target, seconds=seconds)


def _incident(dice: Random, targets: Targets, moment: float) -> Incident:
    at = round(max(0.0, moment + dice.choice((1.0, 5.0, 30.0)) * dice.uniform(-0.2, 1.0)), 3)
    seconds = round(dice.choice((0.05, 0.5, 5.0, 20.0, 90.0)) * dice.uniform(0.5, 1.5), 3)
    number = dice.choice((0, 1, 2, 3, 4))
    if dice.random() < 0.45:
        fault = dice.choice(tuple(CallFault))
        lease = dice.random() < 0.1 and fault is not CallFault.REFUSED
        call = dice.choice(LEASE_CALLS if lease else CALLS)
        return Incident(at=at, kind=fault.value, target="leader", call=call, seconds=min(seconds, 40.0))
    kind = dice.choice(tuple(KINDS))
    target = {"r": "leader", "m": dice.choice(targets.machines), "j": dice.choice(targets.jobs),
              "q": dice.choice(targets.queues)}[KINDS[kind]]  # fmt: skip
    call = dice.choice(WATCHED_OFTEN) if kind == "WatchBroken" else ""
    if kind == "ClockJump":
        number = dice.choice((-3600, -30, -2, 2, 30, 3600))
    return Incident(at=at, kind=kind, target=target, call=call, seconds=seconds, number=number)
