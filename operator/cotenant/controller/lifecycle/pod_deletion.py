"""Deletion of pods by growing force, so that each pod ends within a computable time. Pure.

A pod that was asked to end, by anybody, may be asked again. If its grace period exceeds the administrator's maximum, it
is shortened. `KILL_AFTER_S` after its grace period the pod gets one second, which means SIGKILL. After another
`CONFIRM_S` the pod is *unconfirmed*: its job no longer waits for it, and its GPUs stay taken until its node reports its
end. A grace period of 0 is never used: it would remove the object, which keeps the GPUs counted, and not the processes.

A kubelet keeps to the first grace period that it gets until it is restarted (kubernetes/kubernetes#83916). So asking
again helps only if the kubelet has not begun, or begins anew. The first grace period is bounded by `PodDeleter`, by the
specs of the pods and by the admission policies. The launcher ends in time by its own contract.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from cotenant.controller.informers.pods.pod_record import DeletionRequest, PodRecord
from cotenant.controller.lifecycle.observation import EventToRecord, ForcedDeletion
from cotenant.controller.settings import Settings
from cotenant.core.model.formatting import format_duration

KILL_AFTER_S: Final = 30.0
"""Extra time after the grace period in which a kubelet ends a pod and reports it."""
CONFIRM_S: Final = 60.0
"""Extra time after SIGKILL."""
KILL_GRACE_S: Final = 1
NAMED_MAX: Final = 3
"""Most pods that a message names."""


@dataclass(frozen=True, slots=True)
class PodsToEnd:
    """Deletions that are due now, overdue pods, and the time of the next look."""

    forced: tuple[ForcedDeletion, ...] = ()
    overdue: tuple[PodRecord, ...] = ()
    next_at: float | None = None
    """Unix seconds."""


def effective_grace_s(grace_s: int, settings: Settings) -> int:
    """Grace period in seconds of a job or a pod that asks for this one: at most the administrator's maximum."""
    return min(grace_s, settings.max_grace_period_s)


def overdue_at(deletion: DeletionRequest) -> float:
    """Unix time by which a pod that is being deleted so should be gone."""
    return deletion.asked_at + deletion.grace_s + KILL_AFTER_S


def pods_to_end(pods: Iterable[PodRecord], now: float, settings: Settings) -> PodsToEnd:
    ending = sorted((pod for pod in pods if pod.held and pod.deletion), key=lambda pod: pod.name)
    overlong, overdue, times = [], [], []
    for pod in ending:
        assert pod.deletion is not None
        excess = pod.deletion.grace_s > settings.max_grace_period_s
        allowed = replace(pod.deletion, grace_s=effective_grace_s(pod.grace_s, settings)) if excess else pod.deletion
        at = overdue_at(allowed)
        if now >= at:
            overdue.append(pod)
            continue
        times.append(at)
        if excess:
            overlong.append(pod)
    alive = [pod for pod in overdue if pod.deletion and pod.deletion.grace_s > KILL_GRACE_S]
    forced = [*_shortened(overlong, settings), *_killed(alive)]
    return PodsToEnd(tuple(forced), tuple(overdue), min(times, default=None))


def _shortened(pods: list[PodRecord], settings: Settings) -> Iterable[ForcedDeletion]:
    """One forced deletion for each grace period that these pods have in their specs."""
    for grace_s in sorted({effective_grace_s(pod.grace_s, settings) for pod in pods}):
        some = tuple(pod for pod in pods if effective_grace_s(pod.grace_s, settings) == grace_s)
        given = max(pod.deletion.grace_s for pod in some if pod.deletion)
        message = (
            f"{named(some)} was asked to end with a grace period of {given} s, and the most in this cluster is"
            f" {format_duration(settings.max_grace_period_s)}: it has {format_duration(grace_s)}"
        )
        event = EventToRecord(reason="GracePeriodShortened", message=message, warning=True)
        yield ForcedDeletion(pods=some, grace_s=grace_s, event=event)


def _killed(pods: list[PodRecord]) -> Iterable[ForcedDeletion]:
    if pods:
        message = f"{named(pods)} has not ended {KILL_AFTER_S:.0f} s after its grace period, and is killed"
        event = EventToRecord(reason="GracePeriodOver", message=message, warning=True)
        yield ForcedDeletion(pods=tuple(pods), grace_s=KILL_GRACE_S, event=event)


def named(pods: Iterable[PodRecord]) -> str:
    """The pods in a sentence: `pod a-1-0 on node n1`, and how many more there are."""
    all_of = sorted(pods, key=lambda pod: pod.name)
    first = ", ".join(f"pod {pod.name} on node {pod.node}" for pod in all_of[:NAMED_MAX])
    return f"{first} and {len(all_of) - NAMED_MAX} more" if len(all_of) > NAMED_MAX else first
