"""Why a pod had to go, as Kubernetes shows it."""

from __future__ import annotations

import pytest

from cotenant.controller.informers.pods.disruption import disruption_of


@pytest.mark.parametrize(
    ("condition", "deleting", "reason"),
    [
        ({"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}, True, "Drained"),
        ({"reason": "DeletionByTaintManager"}, True, "NodeTainted"),
        ({"reason": "DeletionByPodGC"}, True, "NodeLost"),
        ({"reason": "TerminationByKubelet", "message": "The node was low on memory."}, False, "EndedByKubelet"),
        (
            {
                "reason": "TerminationByKubelet",
                "message": "Pod was terminated in response to imminent node shutdown.",
            },
            False,
            "NodeShutdown",
        ),
        ({"reason": "SomethingNew"}, False, "SomethingNew"),
        ({"reason": "EvictionByEvictionAPI", "status": "False"}, False, None),
        (None, True, "PodDeleted"),
        (None, False, None),
    ],
    ids=[
        "drained",
        "tainted",
        "no node",
        "by the kubelet",
        "with its node",
        "a newer word",
        "no more",
        "deleted",
        "nobody",
    ],
)
def test_who_takes_a_pod_away_is_read_from_what_kubernetes_says(
    condition: dict[str, str] | None, deleting: bool, reason: str | None
) -> None:
    said = [{"type": "DisruptionTarget", "status": "True"} | condition] if condition else []
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {}
    found = disruption_of({"metadata": metadata, "status": {"conditions": said}})
    assert (found.reason if found else None) == reason
    assert found is None or found.by_kubelet == (reason == "EndedByKubelet")
