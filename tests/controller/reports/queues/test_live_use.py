"""Live use is counted for the queue of the job whose pod holds the GPU, and for nobody else."""

from __future__ import annotations

from typing import Any

from cotenant.api.conversion.to_core import parse_gpunode
from cotenant.api.resources.gpunodes import GPUNodeStatus
from cotenant.controller.informers.job_record import read_job
from cotenant.controller.reports.queues.live_use import LiveUse, by_queue, set_live_gauges
from cotenant.controller.telemetry.metrics import Metrics
from tests.controller.builders import job_document

QUEUES = {"uid-a": "red", "uid-b": "blue"}


def holder(pod: str, job: str, *uuids: str) -> dict[str, Any]:
    gpus = [{"uuid": uuid, "memoryMiB": 1000, "computeMilli": 100} for uuid in uuids]
    where = {
        "podUID": pod,
        "namespace": "n",
        "pod": pod,
        "job": job,
        "jobUID": f"uid-{job}",
        "attempt": 1,
        "nodeRank": 0,
    }
    return where | {"gpus": gpus, "since": "2026-01-01T00:00:00Z", "evidence": "Pod"}


def gpu(uuid: str, busy: int | None, **mib: int) -> dict[str, Any]:
    used = {"memoryMiB": sum(mib.values())} | ({} if busy is None else {"utilizationPercent": busy})
    processes = [{"podUID": pod, "memoryMiB": amount} for pod, amount in mib.items()]
    return {"uuid": uuid, "index": 0, "class": "H100", "memoryMiB": 81920, "used": used, "processes": processes}


def status(*gpus: dict[str, Any], holders: list[dict[str, Any]] | None = None) -> GPUNodeStatus:
    document = {"apiVersion": "cotenant.dev/v1beta1", "kind": "GPUNode", "metadata": {"name": "n1"}}
    return parse_gpunode(document | {"status": {"gpus": list(gpus), "holders": holders}}).status


def test_memory_is_that_of_its_pods_and_a_shared_gpu_is_as_busy_for_each_queue() -> None:
    node = status(
        gpu("shared", 80, p1=100, p2=200, stranger=4000),
        gpu("own", 20, p1=50),
        gpu("silent", None, p2=7),
        gpu("free", 0),
        holders=[
            holder("p1", "a", "shared", "own"),
            holder("p2", "b", "shared", "silent"),
            holder("p3", "gone", "free"),
        ],
    )
    assert by_queue([node, status(gpu("x", 5, p1=1), holders=None)], QUEUES) == {
        "red": LiveUse(memory_mib=150, busy_percent=100, measured=2),
        "blue": LiveUse(memory_mib=207, busy_percent=80, measured=1),
    }


def test_two_pods_of_one_queue_count_a_gpu_that_they_share_once() -> None:
    node = status(gpu("shared", 60, p1=1, p2=2), holders=[holder("p1", "a", "shared"), holder("p2", "a", "shared")])
    assert by_queue([node], QUEUES) == {"red": LiveUse(memory_mib=3, busy_percent=60, measured=1)}


def test_gauges_of_a_queue_that_holds_nothing_any_more_go() -> None:
    metrics, job = Metrics(), read_job(job_document())
    holders = [holder("p1", "a", "own") | {"jobUID": job.uid}]
    series = f'{{queue="{job.queue_named}"}}'
    set_live_gauges(metrics, [status(gpu("own", 25, p1=2), holders=holders)], [job])
    lines = metrics.exposition().decode().splitlines()
    assert f"cotenant_queue_gpu_memory_used_bytes{series} 2.097152e+06" in lines
    assert f"cotenant_queue_gpu_utilization_ratio{series} 0.25" in lines
    set_live_gauges(metrics, [status(holders=[])], [job])
    assert "cotenant_queue_gpu_memory_used_bytes{" not in metrics.exposition().decode()
