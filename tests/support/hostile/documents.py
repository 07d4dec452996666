"""Well-formed documents of each kind, with every field set, for `mutations` to break."""

from __future__ import annotations

import copy
import json
from dataclasses import asdict
from typing import Any, Final

from cotenant.contract import CheckpointSpec, Contract, GpuGrant, PodGrant, Progress, RankGrant, Termination

PROGRESS: Final = asdict(
    Progress(
        "training",
        step=7,
        of=100,
        rate=2.5,
        metrics={"loss": 0.5, "accuracy": 1},
        last_checkpoint_step=5,
        last_checkpoint_at=1767225600.5,
        collective="nccl",
        warnings=("slow", "rank 1 is slow"),
        observed_gpus={"0": ["GPU-1"], "1": ["GPU-2", "GPU-3"]},
        memory_peak_mib={"0": 100, "1": 200},
        slow_ranks={"1": (20.0, 5.0)},
        checked_on="cuda",
        updated_at=1767225600.0,
    )
)
TERMINATION: Final = asdict(
    Termination(
        0, 1, 1, "UserError", message="ValueError: no\nreally", rank=2, pod=1, signal=9,
        results={"loss": 0.5, "name": "resnet", "n": 3}, step=7, of=100, last_checkpoint_step=5,
        tail=("Traceback", "ValueError: no"), warnings=("results.a was left out",),
    )
)  # fmt: skip
CONTRACT: Final = Contract(
    job="train",
    namespace="red",
    uid="uid-1",
    attempt=1,
    node_rank=0,
    pods=(
        PodGrant("train-0.train", (RankGrant(0, (GpuGrant("GPU-1", 40960, 500, whole=False),)),)),
        PodGrant("train-1.train", (RankGrant(1, (GpuGrant("GPU-2", 81920, 1000, whole=True, simulated=True),)),)),
    ),
    mode="command",
    command=("python", "train.py"),
    checkpoint=CheckpointSpec("/checkpoints/train", 600),
    servers=("train-2.train",),
    platform={"preflight": False, "tracking": {"tensorBoard": {"path": "x"}}},
)
POD: Final[dict[str, Any]] = {
    "metadata": {
        "name": "train-1-0",
        "namespace": "red",
        "uid": "pod-1",
        "resourceVersion": "10",
        "labels": {"app.kubernetes.io/managed-by": "cotenant", "cotenant.dev/job": "train"},
        "annotations": {"cotenant.dev/placement": "{}"},
        "deletionTimestamp": "2026-01-01T00:01:00Z",
        "deletionGracePeriodSeconds": 30,
    },
    "spec": {
        "nodeName": "n1",
        "containers": [
            {
                "name": "worker",
                "env": [{"name": name, "value": text} for name, text in CONTRACT.to_environment().items()],
                "resources": {"requests": {"cpu": "2", "memory": "1Gi"}},
            }
        ],
    },
    "status": {
        "phase": "Failed",
        "reason": "Evicted",
        "message": "out of disk",
        "podIP": "10.0.0.7",
        "startTime": "2026-01-01T00:00:00Z",
        "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "Odd", "message": "because"}],
        "containerStatuses": [
            {
                "name": "worker",
                "state": {
                    "terminated": {
                        "exitCode": 1,
                        "reason": "Error",
                        "message": json.dumps(TERMINATION),
                        "finishedAt": "2026-01-01T00:00:30Z",
                    }
                },
            }
        ],
    },
}
"""What a tenant may set of it, and what a kubelet reports in the tenant's words."""
JOB: Final[dict[str, Any]] = {
    "apiVersion": "cotenant.dev/v1beta1",
    "kind": "TrainingJob",
    "metadata": {"name": "train", "namespace": "red", "uid": "uid-1", "resourceVersion": "5", "generation": 1},
    "spec": {
        "queue": "red",
        "workers": 2,
        "gpu": {"memoryFraction": "0.4"},
        "resources": {"cpu": "2", "memory": "4Gi"},
        "runtime": {"command": ["python", "train.py"], "env": [{"name": "LR", "value": "0.1"}]},
        "expectedRuntime": "2h",
        "checkpoint": {"interval": "10m"},
    },
}
MESSAGES: Final[tuple[dict[str, Any], ...]] = (
    {"op": "report", "rank": 0, "step": 7, "of": 100, "metrics": {"loss": 0.5}, "at_monotonic_s": 1.5},
    {"op": "report", "rank": 1, "step": 7, "metrics": {"loss": 1e308}, "counted": True},
    {"op": "results", "rank": 0, "values": {"loss": 0.5, "name": "resnet", "n": 3, "ok": True}},
    {"op": "warning", "key": "a", "text": "slow", "rank": 1},
    {"op": "preflight", "rank": 1, "all_reduce_ms": 2.0, "all_reduce_bytes": 1024, "own_ms": 3.0, "device": "cuda"},
    {"op": "visible-gpus", "rank": 0, "uuids": ["GPU-1"], "grant": 0},
    {"op": "memory", "rank": 0, "peak_mib": 100},
    {"op": "saving", "rank": 0, "step": 5},
    {"op": "saved", "rank": 0, "step": 5},
    {"op": "collective", "rank": 0, "name": "gloo"},
)
ERROR_FILES: Final[tuple[dict[str, Any], ...]] = (
    {
        "type": "ValueError",
        "message": "no",
        "frame": "train.py:6, in train",
        "time": 1.5,
        "started": 1.0,
        "chain": ["a"],
    },
    {"message": {"message": "ValueError: no", "extraInfo": {"py_callstack": "File", "timestamp": "1"}}},
)
HTTP: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 21\r\n\r\n" + b'{"state": "training"}'
)


def pod_with(*, contract: dict[str, str], message: str) -> dict[str, Any]:
    """The pod, with this contract and this termination message."""
    pod = copy.deepcopy(POD)
    pod["spec"]["containers"][0]["env"] = [{"name": name, "value": text} for name, text in contract.items()]
    pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"] = message
    return pod
