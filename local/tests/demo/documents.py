"""API documents of the demo as `kubectl get -o json` returns them. No cluster needed."""

from typing import Any

GPU = {"index": 0, "class": "H100", "memoryMiB": 81920, "healthy": True}


def node(*uuids: str) -> dict[str, Any]:
    gpus = [{**GPU, "uuid": uuid, "index": index} for index, uuid in enumerate(uuids)]
    return {"metadata": {"name": "node-0"}, "status": {"simulated": True, "gpus": gpus}}


def job(name: str, phase: str, *, uuids: tuple[str, ...] = (), age: int = 0, **status: Any) -> dict[str, Any]:
    ranks = [
        {"rank": rank, "gpus": [{"uuid": uuid, "memoryMiB": 32768, "computeMilli": 400}]}
        for rank, uuid in enumerate(uuids)
    ]
    placement = {"nodes": [{"node": "node-0", "ranks": ranks}]} if uuids else None
    return {
        "metadata": {"namespace": "team-a", "name": name, "creationTimestamp": f"2026-01-01T00:00:{age:02d}Z"},
        "spec": {"queue": "team-a", "workers": 2, "gpu": {"memoryFraction": "0.4"}},
        "status": {"phase": phase, "placement": placement, **status},
    }
