"""Jobs of a fault run on a whole cluster, and the tenants that they belong to.

All run `chaos_program`, so that the result of each is known exactly; each is another way in which a job may be built.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.parts.programs import chaos_sums
from cotenant import names

Document = dict[str, Any]
PROGRAM = [Path(chaos_sums.__file__).with_name(f"{name}.py") for name in ("chaos_program", "chaos_sums")]
TEAMS = ("team-a", "team-b")
LIMIT = 5
"""GPUs that a queue may hold at most; three of them are guaranteed to it, of six in all."""
STEPS = 400
RIGHT = chaos_sums.right(STEPS)
SMALL = {"cpu": "100m", "memory": "600Mi"}
KINDS: dict[str, Document] = {
    "elastic": {"workers": 3, "minWorkers": 1, "gpu": {"count": 1}},
    "torchrun": {"workers": 2, "gpu": {"count": 1}},
    "shared": {"workers": 2, "gpu": {"memoryFraction": "0.4", "sharing": "Any"}},
    "servers": {"workers": 2, "gpu": {"memoryFraction": "0.3"}},
}


def tenants() -> list[Document]:
    """Namespaces, queues, the program, and a PriorityClass."""
    priority_class = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}}
    found: list[Document] = [{**priority_class, "value": 100}]
    for team in TEAMS:
        labels = {"cotenant.dev/tenant": "true", "pod-security.kubernetes.io/enforce": "restricted"}
        quota = {"guaranteed": 3, "limit": LIMIT}
        found += [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team, "labels": labels}},
            _resource("Queue", team, None, {"namespaces": [team], "quotas": [quota]}),
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "program", "namespace": team},
                "data": {path.name: path.read_text() for path in PROGRAM},
            },
        ]
    return found


def job(kind: str, number: int, team: str) -> list[Document]:
    """A job that is to end with `RIGHT`, without retries, after the claim that its checkpoints are kept in."""
    name = f"{kind}-{number}"
    program = ["chaos_program.py", {"torchrun": "torch", "servers": "servers"}.get(kind, "own"), str(STEPS)]
    runtime: Document = {
        "command": ["torchrun", "--nproc_per_node=2", *program] if kind == "torchrun" else ["python", *program],
        "code": {"configMap": {"name": "program"}},
        "hangTimeout": "2m",
    }
    if kind == "servers":
        small = {"cpu": "50m", "memory": "300Mi"}
        runtime |= {
            "strategy": "ParameterServer",
            "parameterServer": {"servers": 1, "resources": small, "tolerateGpuTaints": True},
        }
    spec = {
        "queue": team,
        "resources": SMALL,
        "runtime": runtime,
        "checkpoint": {"volume": {"persistentVolumeClaim": {"claimName": name}}},
        "gracePeriod": "20s",
        "retries": 0,
        **KINDS[kind],
    }
    claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "10Mi"}}}
    metadata = {"name": name, "namespace": team}
    return [
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": claim},
        _resource("TrainingJob", name, team, spec),
    ]


def urgent(number: int, team: str) -> Document:
    """A short job of higher priority on all of its queue's guaranteed GPUs: it preempts others of the queue."""
    program = "import time; time.sleep(10)"
    spec = {
        "queue": team,
        "priorityClassName": "urgent",  # a number preempts nobody in its first minutes
        "workers": 3,
        "gpu": {"count": 1},
        "resources": {"cpu": "50m", "memory": "200Mi"},
        "runtime": {"command": ["python", "-c", program]},
    }
    return _resource("TrainingJob", f"urgent-{number}", team, spec)


def _resource(kind: str, name: str, namespace: str | None, spec: Document) -> Document:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": names.API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
