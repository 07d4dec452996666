"""How an attempt ended, from the exits of its pods. Pure.

When one pod fails, its peers fail too, with codes that only mean that a peer was lost. So exits are ranked by how much
they explain, and a short pause lets the exit that explains the others arrive first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from cotenant import contract, names
from cotenant.api.resources.trainingjob_status import ExitStatus
from cotenant.controller.informers.pods.disruption import Disruption
from cotenant.controller.informers.pods.pod_record import NEVER_STARTED, Exit, PodRecord

QUOTE_CHARS_MAX = 500
"""Most characters that are quoted from a message of the kubelet, the container runtime or the kube-scheduler."""
REFUSALS = frozenset(
    {
        "AppArmor",
        "InvalidNodeInfo",
        "NodeAffinity",
        "NodeShutdown",
        "SysctlForbidden",
        "TopologyAffinityError",
        "UnexpectedAdmissionError",
        "VolumeAttachmentLimitExceeded",
    }
)
"""The kubelet's reasons for a pod that it did not let in. Other reasons begin with `OUT_OF_RESOURCE`."""
OUT_OF_RESOURCE = "OutOf"
"""Prefix of such reasons, as in `OutOfcpu`."""
_NOT_LET_IN = re.compile(r"Pod was rejected|The node had condition")
"""How the kubelet's message begins about a pod that it did not let in. The second is for a node under pressure, whose
reason is `Evicted`, as for a pod that ran.
"""
_DISK = re.compile(r"EmptyDir|ephemeral", re.IGNORECASE)
"""Words in the kubelet's message when it evicts a pod for the pod's own use of disk."""
DELETED_UNSEEN = Disruption("PodLost", "was deleted by somebody while the job was running")
"""Assumed of a pod that is gone and of whose disruption nothing was seen."""
SETTLE_S = 5.0
"""How long the exit of one pod waits for the exits of the others."""


class AttemptOutcome(StrEnum):
    COMPLETED = "Completed"
    FAILED = "Failed"
    """Failed by its own fault. It counts against `retries`."""
    NON_RETRIABLE = "NonRetriable"
    """Failed by its own fault, and another attempt would end the same way."""
    NEVER_STARTED = "NeverStarted"
    """The container runtime of its node could not start it, so no instruction ran. Not charged."""
    PLATFORM_FAULT = "PlatformFault"
    """By a fault of the platform."""
    EXTERNAL_DISRUPTION = "ExternalDisruption"
    """A pod was taken away from outside: by a drain, an eviction or `kubectl delete pod`. Or the node did not let the
    pod in, because somebody unknown holds its GPUs there. Not charged.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnd:
    outcome: AttemptOutcome
    exit: ExitStatus
    pod: PodRecord | None = None
    message_is_complete: bool = False
    """True if the message explains the exit without the code, which the program did not choose."""


@dataclass(frozen=True, slots=True)
class Undecided:
    """The failure is not classified yet. Says when to look again."""

    until: float


def classify(pods: Mapping[int, PodRecord], size: int, now: float) -> AttemptEnd | Undecided | None:
    """Classify the exits of `pods`, which are keyed by node rank; `size` is the number of pods of the gang.

    None if the attempt goes on.
    """
    ended = {rank: pod for rank, pod in pods.items() if pod.exit is not None}
    if not ended:
        return None
    failed = [pod for pod in ended.values() if pod.exit and pod.exit.code != 0]
    first = min((pod.exit.at for pod in ended.values() if pod.exit and pod.exit.at), default=now)
    all_ended = len(ended) == size
    refused = next((pod for pod in failed if is_refused_by_kubelet(pod)), None)
    if not all_ended and refused is None and now < first + SETTLE_S and (failed or 0 in ended):
        return Undecided(first + SETTLE_S)
    if failed:
        culprit = refused or min(failed, key=_explanatory_rank)
        full = next((pod for pod in failed if has_filled_its_scratch(pod)), None)
        if full is not None:
            return AttemptEnd(
                outcome=AttemptOutcome.FAILED, exit=_scratch_exit(full), pod=full, message_is_complete=True
            )
        by = _disruption_of(culprit)
        if refused is not None:
            refusal = exit_status(culprit, pods)
            return AttemptEnd(outcome=AttemptOutcome.EXTERNAL_DISRUPTION, exit=refusal, pod=culprit)
        if by is None:
            return AttemptEnd(outcome=_outcome(_exit_of(culprit)), exit=exit_status(culprit, pods), pod=culprit)
        seen = _disrupted_exit(culprit, by)
        return AttemptEnd(outcome=_outcome_by(by), exit=seen, pod=culprit, message_is_complete=True)
    # The pod of rank 0 ends only after all ranks, and gives every pod of ranks the same verdict. If it is gone, theirs
    # is its own.
    told = next((ended[rank] for rank in sorted(ended) if ended[rank].role is contract.Role.WORKER), None)
    if told is not None and (0 in ended or 0 not in pods):
        return AttemptEnd(outcome=AttemptOutcome.COMPLETED, exit=exit_status(told), pod=told)
    return None


def pod_lost(pod_name: str, node: str, disruption: Disruption | None, now: float) -> AttemptEnd:
    """The end of an attempt that lost a running pod. `node` is empty if it is unknown."""
    where, lost = f" on node {node}" if node else "", disruption or DELETED_UNSEEN
    message = f"pod {pod_name}{where} {lost.description}"
    seen = ExitStatus(code=-1, reason=lost.reason, message=message, node=node or None, at=now)
    return AttemptEnd(outcome=_outcome_by(lost), exit=seen, message_is_complete=True)


def _outcome_by(disruption: Disruption) -> AttemptOutcome:
    return AttemptOutcome.PLATFORM_FAULT if disruption.by_kubelet else AttemptOutcome.EXTERNAL_DISRUPTION


def is_refused_by_kubelet(pod: PodRecord) -> bool:
    """True if the kubelet did not let the pod in: its devices, CPU or memory are in use there, they lie on several NUMA
    nodes, or the node is under pressure or shuts down.

    Such an exit needs no other explanation, and has no time.
    """
    ended = pod.exit
    if ended is None or ended.code != -1:
        return False
    named = ended.reason in REFUSALS or ended.reason.startswith(OUT_OF_RESOURCE)
    return named or bool(_NOT_LET_IN.match(ended.runtime_message))


def has_filled_its_scratch(pod: PodRecord) -> bool:
    """True if the kubelet ended it for its own use of disk. If a node runs low, the pod has a disruption condition."""
    evicted = pod.exit is not None and pod.disruption is None and bool(_DISK.search(pod.exit.eviction))
    return evicted and pod.worker is not None


def _scratch_exit(pod: PodRecord) -> ExitStatus:
    eviction = _exit_of(pod).eviction
    amount = "memory" if "cotenant-shm" in eviction else "scratch"
    said = eviction.strip().rstrip(".")
    message = f"pod {pod.name} was evicted by its kubelet: {said}. Ask for more in {_where_to_ask(pod, amount)}"
    return exit_status(pod).model_copy(update={"reason": "ScratchFull", "message": message})


def exit_status(pod: PodRecord, gang: Mapping[int, PodRecord] = MappingProxyType({})) -> ExitStatus:
    """The exit that the launcher of `pod` reported. It may be the exit of another pod of the `gang`."""
    ended = _exit_of(pod)
    termination, at = ended.termination, ended.at or None
    if termination is None:
        return ExitStatus(
            code=ended.code,
            reason=ended.reason or "Error",
            message=_describe_exit(pod, ended),
            pod=pod.name,
            node=pod.node,
            at=at,
        )
    of = pod if termination.pod is None else gang.get(termination.pod, pod)
    return ExitStatus(
        code=termination.code,
        reason=termination.reason,
        message=termination.message,
        rank=termination.rank,
        signal=termination.signal,
        pod=of.name,
        node=of.node,
        tail=termination.tail,
        at=at,
    )


def _disruption_of(pod: PodRecord) -> Disruption | None:
    """The disruption that caused the exit; None if the program had ended by itself before."""
    if pod.exit is None or pod.disruption is None or pod.exit.reason == "OOMKilled":
        return None
    if pod.exit.termination is not None or 0 <= pod.exit.code < 128:
        return pod.disruption if pod.exit.code == names.EXIT_PREEMPTED else None
    return pod.disruption


def _disrupted_exit(pod: PodRecord, disruption: Disruption) -> ExitStatus:
    on = f" on node {pod.node}" if pod.node else ""
    return exit_status(pod).model_copy(
        update={"reason": disruption.reason, "message": f"pod {pod.name}{on} {disruption.description}"}
    )


_RESOURCES: Mapping[contract.Role | None, str] = {
    None: "spec.resources",
    contract.Role.WORKER: "spec.resources",
    contract.Role.PARAMETER_SERVER: "spec.runtime.parameterServer.resources",
    contract.Role.EVALUATOR: "spec.evaluator.resources",
}
_UNKNOWN = frozenset({"ContainerStatusUnknown", "Unknown"})
"""Reasons for a container of which nobody saw the end, because its node lost power or its runtime was started anew. The
first is the kubelet's, with code 137; the second is containerd's, with code 255.
"""


def _describe_exit(pod: PodRecord, ended: Exit) -> str:
    if ended.reason == "OOMKilled":
        return f"pod {pod.name} used more memory than it has; ask for more in {_where_to_ask(pod, 'memory')}"
    quoted = ended.runtime_message[:QUOTE_CHARS_MAX]
    if is_refused_by_kubelet(pod):
        return f"the kubelet of node {pod.node} refused pod {pod.name} ({ended.reason}): {quoted}"
    if ended.reason in NEVER_STARTED and is_runtime_fault(quoted):
        return f"the container runtime of node {pod.node} could not start pod {pod.name}: {quoted or ended.reason}"
    if ended.code == -1 or ended.reason in _UNKNOWN:
        return f"pod {pod.name} was ended by the platform ({ended.reason})" + (f": {quoted}" if quoted else "")
    if _killed_from_outside(ended):
        on = f" on node {pod.node}" if pod.node else ""
        return (
            f"pod {pod.name}{on} was killed from outside (SIGKILL to its first process, which nothing in it can send)"
        )
    return f"pod {pod.name} ended with {ended.code}" + (f": {quoted}" if quoted else " and left no message")


def _where_to_ask(pod: PodRecord, amount: str) -> str:
    """The fields of the job that say how much of `amount` the pod has."""
    field = f"{_RESOURCES[pod.role]}.{amount}"
    if pod.worker is None or not pod.worker.has_chief:
        return field
    others = pod.worker.placement is not None and len(pod.worker.placement.ranks) > 1
    return f"spec.chief.resources.{amount}" + (f", or in {field} for the other ranks in it" if others else "")


def _exit_of(pod: PodRecord) -> Exit:
    if pod.exit is None:
        raise ValueError(f"pod {pod.name} has not ended")
    return pod.exit


def _killed_from_outside(ended: Exit) -> bool:
    """True if a process from outside killed the container, and not for memory.

    The kernel keeps processes in a pod from killing the pod's first process.
    """
    return ended.code == 137 and ended.termination is None and ended.reason != "OOMKilled"


def _ended_unseen(ended: Exit) -> bool:
    """True if the container ended with its node or its runtime. A launcher that ends by itself leaves a message."""
    return ended.termination is None and ended.reason in _UNKNOWN


def is_runtime_fault(words: str) -> bool:
    """True if the runtime's words blame the node for a container that did not start.

    A program that is not in the image, or cannot be executed, is the job's own fault.
    """
    return bool(_NVIDIA.search(words)) or not ("exec:" in words or "exec format error" in words)


_NVIDIA = re.compile(r"nvidia-(container|ctk|cdi)|CDI device|nvml error")


def _outcome(ended: Exit) -> AttemptOutcome:
    code = ended.code
    if ended.reason in NEVER_STARTED and is_runtime_fault(ended.runtime_message):
        return AttemptOutcome.NEVER_STARTED
    if code in names.PLATFORM_FAULTS or code == -1 or _killed_from_outside(ended) or _ended_unseen(ended):
        return AttemptOutcome.PLATFORM_FAULT
    if code == names.EXIT_PREEMPTED:
        return AttemptOutcome.EXTERNAL_DISRUPTION
    return AttemptOutcome.NON_RETRIABLE if code == names.EXIT_BAD_CONTRACT else AttemptOutcome.FAILED


_UNINFORMATIVE = (names.EXIT_PREEMPTED, names.EXIT_RAY_DIED, names.EXIT_RENDEZVOUS_TIMEOUT, -1, names.EXIT_PEER_LOST)
"""Codes that explain less than all others, in descending order: a pod that was asked to leave explains why peers lost
it.
"""


def _explanatory_rank(pod: PodRecord) -> tuple[int, float, int]:
    """Sort key of exits: the job's own codes first, then the earliest, then the lowest node rank."""
    ended, rank = _exit_of(pod), pod.worker.node_rank if pod.worker else 0
    code = names.EXIT_PREEMPTED if _disruption_of(pod) else ended.code
    return _UNINFORMATIVE.index(code) + 1 if code in _UNINFORMATIVE else 0, ended.at, rank
