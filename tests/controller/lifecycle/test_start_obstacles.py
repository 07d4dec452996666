"""Pods whose volumes do not come."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.api.conversion.to_core import parse_job
from cotenant.controller.informers.pod_record import read_pod
from cotenant.controller.lifecycle.start_obstacles import mounted_sources
from tests.controller.builders import job_document, pod_document


def test_what_a_job_mounts_is_named_once_in_its_own_order() -> None:
    claim = {"persistentVolumeClaim": {"claimName": "disk"}}
    spec = job_document(
        runtime={
            "command": ["python", "a.py"],
            "code": {"configMap": {"name": "code"}},
            "volumes": [
                {"name": "a", "mountPath": "/a", "secret": {"secretName": "key"}},
                {"name": "b", "mountPath": "/b", "emptyDir": {}},
                {"name": "c", "mountPath": "/c", **claim},
            ],
        },
        checkpoint={"volume": claim},
    )
    assert mounted_sources(parse_job(spec).spec) == ["ConfigMap code", "Secret key", "PersistentVolumeClaim disk"]
    assert mounted_sources(parse_job(job_document()).spec) == []


@pytest.mark.parametrize(
    ("status", "since"),
    [
        ({"phase": "Pending"}, 0.0),
        ({"phase": "Pending", "startTime": "1970-01-01T00:01:40Z", "conditions": "False"}, 100.0),
        ({"phase": "Pending", "startTime": "1970-01-01T00:01:40Z", "conditions": "True"}, 0.0),
        ({"phase": "Failed", "startTime": "1970-01-01T00:01:40Z", "conditions": "False"}, 0.0),
    ],
    ids=["no kubelet has seen it", "its volumes are awaited", "its image is pulled", "it has ended"],
)
def test_a_kubelet_says_since_when_it_gets_a_pod_ready(status: dict[str, Any], since: float) -> None:
    ready = status.pop("conditions", None)
    conditions = [{"type": "PodReadyToStartContainers", "status": ready}] if ready else []
    assert read_pod(pod_document(status={**status, "conditions": conditions})).preparing_since == since
