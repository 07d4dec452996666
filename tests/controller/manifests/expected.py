"""An attempt with parameter servers, and what is the same in all objects that the builders are held to."""

from __future__ import annotations

from typing import Any

from cotenant.api.resources.gpunodes import IsolationPath
from cotenant.api.resources.placement_status import Isolation
from cotenant.controller.isolation.node_isolation import NodeIsolation
from cotenant.controller.manifests.attempt import Attempt, CpuPod, Program
from cotenant.controller.settings import Settings
from tests.controller.builders import UID, attempt

MARKED = {"example.com/mark": "yes"}
"""Label and annotation that `SETTINGS` puts on pods."""
SETTINGS = Settings(
    tolerations='[{"key": "gpu", "operator": "Exists"}]',
    pod_labels='{"example.com/mark": "yes"}',
    pod_annotations='{"example.com/mark": "yes"}',
)

SIMULATED = NodeIsolation(simulated=True, best=Isolation.NONE)

REAL = NodeIsolation(simulated=False, best=Isolation.WATCHED)

LIMITED = NodeIsolation(
    simulated=False,
    best=Isolation.WATCHED,
    available=frozenset({IsolationPath.MEMORY_LIMIT}),
    memory_mib={"GPU-n1-0": 81_920, "GPU-n1-1": 81_920},
)

SECRET = f"cotenant-token-{UID}-3"

OWNED: dict[str, Any] = {
    "labels": {
        "app.kubernetes.io/managed-by": "cotenant",
        "cotenant.dev/job": "train",
        "cotenant.dev/job-uid": UID,
    },
    "ownerReferences": [
        {
            "apiVersion": "cotenant.dev/v1beta1",
            "kind": "TrainingJob",
            "name": "train",
            "uid": UID,
            "controller": True,
            "blockOwnerDeletion": False,
        }
    ],
}

SERVERS = CpuPod(cpu_milli=500, memory_mib=1024)


def served(servers: int = 2, wanted: CpuPod = SERVERS, *nodes: tuple[str, int]) -> Attempt:
    program = Program(
        image="example.com/worker:1",
        mode="command",
        command=("python", "x.py"),
        strategy="ParameterServer",
        env=({"name": "DATA", "value": "theirs"},),
        volumes=({"name": "data", "persistentVolumeClaim": {"claimName": "d"}},),
        mounts=({"name": "data", "mountPath": "/data"},),
        code={"source": {"configMap": {"name": "code"}}},
        servers=wanted,
    )
    return attempt(*nodes, program=program, servers=servers)
