"""Who took a pod away, when somebody did: Kubernetes' own word for it, and what a tenant is told. Pure.

A pod that is drained, deleted, or ended by its kubelet may be killed before its launcher can say a word; its exit code
then looks like a fault of the program. Kubernetes says whose doing it was in the condition DisruptionTarget.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Disruption:
    """Somebody else ended the pod, or is about to."""

    reason: str
    """Ours, in one word."""
    description: str
    """After "pod a-1-0 on node n1"."""
    by_kubelet: bool = False
    """The node could not go on with the pod; anything else was somebody's decision."""


_BY_CONDITION = {
    "EvictionByEvictionAPI": Disruption("Drained", "was evicted, as `kubectl drain` does"),
    "DeletionByTaintManager": Disruption("NodeTainted", "was removed, because the node got a NoExecute taint"),
    "DeletionByPodGC": Disruption("NodeLost", "was removed, because its Node is not there any more"),
    "PreemptionByScheduler": Disruption("PodPreempted", "had to leave for a pod of a higher PriorityClass"),
    "TerminationByKubelet": Disruption("EndedByKubelet", "was ended by the kubelet", by_kubelet=True),
}
_DELETED = Disruption("PodDeleted", "was deleted by somebody")


def disruption_of(document: Mapping[str, Any]) -> Disruption | None:
    """Of a v1 Pod; nothing when nobody has asked it to leave."""
    for condition in (document.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            word, said = condition.get("reason") or "Disrupted", condition.get("message") or ""
            known = _BY_CONDITION.get(word)
            if known is None:
                return Disruption(word, f"was taken away: {said}".rstrip(": "))
            return (
                Disruption(known.reason, f"{known.description}: {said}".rstrip(": "), True)
                if known.by_kubelet
                else known
            )
    return _DELETED if "deletionTimestamp" in document["metadata"] else None
