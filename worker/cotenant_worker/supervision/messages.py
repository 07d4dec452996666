"""Messages between ranks, launchers, parameter servers and the conductor: one frozen dataclass each.

The shim speaks the same JSON lines from a tenant's interpreter, which cannot import this package; a test decodes all
that it sends. Times `…_unix_s` are seconds since 1970; durations `…_s` are seconds.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from cotenant_worker.messaging.codec import Codec
from cotenant_worker.messaging.records import record
from cotenant_worker.supervision.commands import Finish, KillRanks, Resize
from cotenant_worker.supervision.failure_cause import RankExit
from cotenant_worker.supervision.hangs import RankHeartbeat
from cotenant_worker.supervision.rank_reports import (
    CheckpointSaved,
    CheckpointStarted,
    CollectiveBackend,
    MemoryPeak,
    PreflightTimes,
    ProgramActivity,
    ProgressWarning,
    RankReport,
    ResultsReport,
    StepReport,
    VisibleGpus,
)
from cotenant_worker.supervision.worker_group import WorkerGroup

# -- a process introduces itself to the launcher of its pod ----------------------------------------------------------


@record
class Hello:
    """The first message on the launcher's socket."""

    role: Literal["rank", "actor", "driver"]
    """Programs, and Ray's node process, greet as a rank."""
    rank: int = -1


@record
class PhaseReached:
    """A start-up phase is done: for the launcher's table of timings."""

    phase: str
    first_step: bool = False
    """True if a rank has done its first step: it has imported everything that a step needs."""
    rank: int = -1


@record
class ForwardedReport:
    """A report from a rank of another pod, on its way to rank 0's."""

    report: RankReport
    received_unix_s: float
    """By the clock of the rank's own pod."""


# -- a launcher to the conductor -------------------------------------------------------------------------------------


@record
class PodReady:
    ip: str


@record
class PodStaging:
    """A pod fetches its data. Sent repeatedly: as an event, so that it is waited for, and to rank 0's pod, to
    be shown.
    """

    pod: int
    fetched_bytes: int
    of_bytes: int
    done: bool = False


@record
class RankExited:
    exit: RankExit
    age_s: float
    """Seconds since it ended. `exit.at` is by the clock of its own pod, and clocks of two pods differ."""


@record
class RankStopped:
    """A rank was stopped (SIGSTOP) and stays so."""

    rank: int
    generation: int
    stopped_s: float


@record
class SafePoints:
    """Progress of the ranks of a pod that were asked to leave."""

    calls: dict[int, int]
    """Rank → its calls of `should_stop`."""
    calls_per_s: float


@record
class ServerReady:
    server: int


@record
class ServerLost:
    server: int
    why: str


@record
class PodLost:
    """The pod's launcher or its node has ended."""

    why: str


@record
class Preempt:
    """Preemption. As an event: a pod was asked to leave. As a command: all ranks save and leave."""


PodEvent: TypeAlias = (
    PodReady
    | PodStaging
    | RankExited
    | RankStopped
    | RankHeartbeat
    | ForwardedReport
    | SafePoints
    | ServerReady
    | ServerLost
    | PodLost
    | Preempt
)
"""Events that the conductor acts on."""

# -- the conductor to the launchers ----------------------------------------------------------------------------------


@record
class StartRanks:
    group: WorkerGroup


@record
class StopAtCall:
    """Every rank leaves at this call of `should_stop`."""

    call: int


@record
class HeadSilent:
    """No sign of life from rank 0's pod."""

    silent_s: float


@record
class FinishAttempt:
    verdict: Finish


PodCommand: TypeAlias = StartRanks | KillRanks | Resize | Preempt | StopAtCall | HeadSilent | FinishAttempt
"""Commands that a launcher executes."""


@record
class Restarted:
    """The ranks start again in place; shown by rank 0's pod."""

    generation: int
    why: str


HeadMessage: TypeAlias = ForwardedReport | ProgressWarning | Restarted | PodStaging
"""Messages for rank 0's pod only."""

# -- between rank 0's pod and the pods of parameter servers ----------------------------------------------------------


@record
class ServerHello:
    server: int


@record
class Alive:
    """Sent periodically, so that silence means a loss."""


@record
class ServerGone:
    """The process of the server has ended, or hangs."""

    why: str


Message: TypeAlias = (
    Hello | PhaseReached | RankReport | PodEvent | PodCommand | HeadMessage | ServerHello | Alive | ServerGone
)

MESSAGES: Final[Codec[Message]] = Codec(
    {
        "hello": Hello,
        "heartbeat": RankHeartbeat,
        "phase": PhaseReached,
        "report": StepReport,
        "results": ResultsReport,
        "saving": CheckpointStarted,
        "saved": CheckpointSaved,
        "preflight": PreflightTimes,
        "collective": CollectiveBackend,
        "visible-gpus": VisibleGpus,
        "memory": MemoryPeak,
        "activity": ProgramActivity,
        "warning": ProgressWarning,
        "forwarded": ForwardedReport,
        "ready": PodReady,
        "staging": PodStaging,
        "exit": RankExited,
        "stopped": RankStopped,
        "calls": SafePoints,
        "server-ready": ServerReady,
        "server-lost": ServerLost,
        "lost": PodLost,
        "preempt": Preempt,
        "start": StartRanks,
        "kill": KillRanks,
        "resize": Resize,
        "stop-at": StopAtCall,
        "head-silent": HeadSilent,
        "finish": FinishAttempt,
        "restarted": Restarted,
        "server-hello": ServerHello,
        "alive": Alive,
        "server-gone": ServerGone,
    }
)
"""All messages between processes of a job, by the field "op" of their JSON."""
