"""Disruption of a pod from outside: the reason that Kubernetes gives, and a description for tenants. Pure.

A pod that is drained, deleted or ended by its kubelet may be killed before its launcher can report anything. Its exit
code then looks like a fault of the program. The condition DisruptionTarget tells what disrupted it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Disruption:
    """The pod was ended from outside, or will be soon."""

    reason: str
    """One word, as in the status."""
    description: str
    """Continues the sentence "pod a-1-0 on node n1 …"."""
    by_kubelet: bool = False
    """True if the node could not keep the pod. Otherwise a user or a controller decided it."""


_BY_CONDITION = {
    "EvictionByEvictionAPI": Disruption("Drained", "was evicted, as `kubectl drain` does"),
    "DeletionByTaintManager": Disruption("NodeTainted", "was removed, because the node got a NoExecute taint"),
    "DeletionByPodGC": Disruption("NodeLost", "was removed, because its Node is not there any more"),
    "PreemptionByScheduler": Disruption("PodPreempted", "had to leave for a pod of a higher PriorityClass"),
    "TerminationByKubelet": Disruption("EndedByKubelet", "was ended by the kubelet", by_kubelet=True),
}
_SHUTDOWN = "node shutdown"
"""Words of a kubelet whose node shuts down, as a cloud does with a spot node that it takes back."""
_DELETED = Disruption("PodDeleted", "was deleted by somebody")


def disruption_of(document: Mapping[str, Any]) -> Disruption | None:
    """Disruption of a v1 Pod; None when nothing has disrupted it."""
    for condition in (document.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            reason, message = condition.get("reason") or "Disrupted", condition.get("message") or ""
            if reason == "TerminationByKubelet" and _SHUTDOWN in message:
                return Disruption("NodeShutdown", "was ended, because its node shuts down")
            known = _BY_CONDITION.get(reason)
            if known is None:
                return Disruption(reason, f"was taken away: {message}".rstrip(": "))
            return (
                Disruption(known.reason, f"{known.description}: {message}".rstrip(": "), True)
                if known.by_kubelet
                else known
            )
    return _DELETED if "deletionTimestamp" in document["metadata"] else None
