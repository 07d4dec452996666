"""Taints that keep worker pods away, as the kube-scheduler would."""

from __future__ import annotations

import pytest

from cotenant.api.scalars.taints import untolerated_taint

GPU = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}

SLA = {"key": "sla", "value": "950", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("taints", "tolerations", "key"),
    [
        ([], [], None),
        ([GPU], [], "nvidia.com/gpu"),
        ([GPU], [{"key": "nvidia.com/gpu", "operator": "Exists"}], None),
        ([GPU], [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}], "nvidia.com/gpu"),
        ([GPU], [{"key": "nvidia.com/gpu", "value": "present"}], None),
        ([GPU], [{"key": "nvidia.com/gpu", "value": "absent"}], "nvidia.com/gpu"),
        ([GPU], [{"operator": "Exists"}], None),
        ([SLA], [{"key": "sla", "operator": "Gt", "value": "900"}], None),
        ([SLA], [{"key": "sla", "operator": "Gt", "value": "950"}], "sla"),
        ([SLA], [{"key": "sla", "operator": "Lt", "value": "951"}], None),
        ([SLA], [{"key": "sla", "operator": "Lt", "value": "950"}], "sla"),
        ([SLA | {"value": "high"}], [{"key": "sla", "operator": "Gt", "value": "900"}], "sla"),
        ([SLA], [{"key": "sla", "operator": "Gt", "value": "0900"}], "sla"),
        ([GPU | {"effect": "PreferNoSchedule"}], [], None),
        ([GPU, {"key": "down", "effect": "NoExecute"}], [{"key": "nvidia.com/gpu", "operator": "Exists"}], "down"),
    ],
    ids=str,
)
def test_a_taint_keeps_worker_pods_away_as_the_kube_scheduler_would(
    taints: list[dict[str, str]], tolerations: list[dict[str, str]], key: str | None
) -> None:
    assert untolerated_taint(taints, tolerations) == key
