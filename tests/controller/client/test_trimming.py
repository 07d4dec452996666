"""Pods of a list, kept small until it is whole."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant import names
from cotenant.controller.client.trimming import PackedPods, trimmed
from cotenant.controller.informers.pods.pod_record import read_pod
from tests.controller.builders import pod_document, terminated

BULKY = {
    "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:spec": {}}}],
    "annotations": {"example.com/a": "x" * 80},
    "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": "u"}],
}


def bulky(document: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    document["metadata"] |= BULKY | metadata
    document["spec"] |= {
        "volumes": [{"name": "v", "configMap": {"name": "c"}}],
        "tolerations": [{"operator": "Exists"}],
    }
    for one in document["spec"]["containers"]:
        one |= {"livenessProbe": {"httpGet": {"path": "/"}}, "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    return document


SIDECAR = {
    "name": "proxy",
    "restartPolicy": "Always",
    "env": [{"name": "A", "value": "a"}],
    "resources": {"requests": {"cpu": "1", "example.com/dongle": "2"}, "limits": {"example.com/dongle": "2"}},
}
NOT_BOUND = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}
STARTED_AGAIN = {
    "name": names.CONTAINER,
    "state": {"running": {}},
    "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2026-01-01T00:00:30Z"}},
    "restartCount": 2,
}
DISRUPTED = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "drain"}


@pytest.mark.parametrize(
    "document",
    [
        bulky(pod_document(0)),
        bulky(pod_document(0, status=terminated(3, message="boom", rank=1))),
        bulky(pod_document(0, deleting=True), deletionGracePeriodSeconds=9),
        bulky(pod_document(0, server=True)),
        bulky(pod_document(1, evaluator=True, status={"phase": "Running", "containerStatuses": [STARTED_AGAIN]})),
        bulky(pod_document(0, node="", status={"phase": "Pending", "conditions": [NOT_BOUND]})),
        bulky(pod_document(0, status={"phase": "Running", "conditions": [DISRUPTED], "podIP": "10.0.0.1"})),
        bulky(pod_document(0)) | {"spec": {"nodeName": "n1", "containers": [SIDECAR], "initContainers": [SIDECAR],
                                           "overhead": {"cpu": "1"}, "hostNetwork": True}},
    ],
    ids=["ours", "ended", "deleted", "a server", "an evaluator again", "not bound", "disrupted", "of others"],
)  # fmt: skip
def test_all_that_is_read_of_a_pod_is_kept(document: dict[str, Any]) -> None:
    assert read_pod(trimmed(document)) == read_pod(document)
    packed = PackedPods()
    packed.extend([document])
    assert [read_pod(one) for one in packed] == [read_pod(document)]


def test_what_nobody_reads_is_left_out() -> None:
    document = bulky(pod_document(0))
    document["spec"]["containers"].append(SIDECAR)
    kept = trimmed(document)
    assert set(kept["metadata"]) == {"name", "namespace", "uid", "resourceVersion", "labels"}
    assert set(kept["metadata"]["labels"]) == {names.LABEL_QUEUE, names.LABEL_MANAGED_BY}
    assert [set(one) for one in kept["spec"]["containers"]] == [
        {"name", "env", "resources"},
        {"name", "resources", "restartPolicy"},
    ]
