"""Gauges of jobs, queues and GPUs: what is counted, under which names, and what goes with what is gone."""

from __future__ import annotations

from dataclasses import replace

from cotenant.api.conversion.to_core import parse_queue, to_queue
from cotenant.controller.informers.job_record import JobRecord, read_job
from cotenant.controller.reports.queues.queue_gauges import set_gauges
from cotenant.controller.reports.queues.queue_status import QueueAccounts
from cotenant.controller.telemetry.metrics import Metrics
from cotenant.core.model.lifecycle import Phase
from cotenant.core.model.objects import GpuRequest, TenantQueue
from cotenant.core.model.plan import Reason, Verdict
from cotenant.core.snapshot.snapshot import Snapshot
from tests.controller.builders import admitted, job_document
from tests.support.clusters import ToyCluster, make_job, make_node

GAUGES = ("cotenant_jobs", "cotenant_jobs_pending", "cotenant_gpus_held", "cotenant_gpus_ready")


def queue(name: str) -> TenantQueue:
    spec = {"namespaces": ["red"], "quotas": [{"guaranteed": 2}]}
    document = {"apiVersion": "cotenant.dev/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}
    return to_queue(parse_queue(document), namespaces={"red": {}})


def full_cluster() -> Snapshot:
    """Two nodes of two GPUs each, where a quarter and a whole GPU are held, and two jobs that wait."""
    jobs = [make_job("share", gpu=GpuRequest(memory_mib=20_480)), make_job("whole")]
    toy = ToyCluster([make_node("n1", gpus=2), make_node("n2", gpus=2)], [queue("red")], jobs)
    toy.cycle()
    waiting = (make_job("later", at=1.0), make_job("lost", queue="nowhere", at=2.0))
    snapshot = toy.snapshot()
    return replace(snapshot, jobs=(*snapshot.jobs, *waiting), accounting=None)


def verdicts(**reasons: Reason) -> dict[str, Verdict]:
    keys = {name: make_job(name).key for name in reasons}
    return {keys[name]: Verdict(job=keys[name], reason=reason, message="") for name, reason in reasons.items()}


def served(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """(gauge, labels…) → value."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name in GAUGES
    }


def records(*phases: Phase) -> list[JobRecord]:
    read = read_job(job_document())
    return [replace(read, status=admitted(phase, ("n1", 1))) for phase in phases]


def test_jobs_are_counted_by_phase_and_gpus_by_queue_and_class() -> None:
    metrics, snapshot = Metrics(), full_cluster()
    phases = records(Phase.RUNNING, Phase.RUNNING, Phase.STARTING)
    set_gauges(metrics, snapshot, QueueAccounts.of(snapshot), {}, phases)
    assert served(metrics) == {
        ("cotenant_jobs", "Running"): 2.0,
        ("cotenant_jobs", "Starting"): 1.0,
        ("cotenant_gpus_held", "red", "H100"): 1.25,
        ("cotenant_gpus_ready", "H100"): 4.0,
    }


def test_a_job_that_waits_is_counted_with_its_queue_and_its_reason_and_one_of_no_queue_without() -> None:
    metrics, snapshot = Metrics(), full_cluster()
    waiting = verdicts(later=Reason.WAITING_FOR_QUOTA, lost=Reason.QUEUE_NOT_FOUND, gone=Reason.QUEUE_NOT_FOUND)
    set_gauges(metrics, snapshot, QueueAccounts.of(snapshot), waiting, [])
    pending = {key: value for key, value in served(metrics).items() if key[0] == "cotenant_jobs_pending"}
    assert pending == {
        ("cotenant_jobs_pending", "red", "WaitingForQuota"): 1.0,
        ("cotenant_jobs_pending", "", "QueueNotFound"): 2.0,
    }


def test_the_series_of_what_is_gone_go() -> None:
    metrics, snapshot = Metrics(), full_cluster()
    waiting = verdicts(later=Reason.WAITING_FOR_QUOTA)
    set_gauges(metrics, snapshot, QueueAccounts.of(snapshot), waiting, records(Phase.RUNNING))
    empty = Snapshot(now=0.0)
    set_gauges(metrics, empty, QueueAccounts.of(empty), {}, [])
    assert served(metrics) == {}


def test_gpus_that_are_ready_are_counted_anew_each_time() -> None:
    metrics, snapshot = Metrics(), full_cluster()
    for _ in range(2):
        set_gauges(metrics, snapshot, QueueAccounts.of(snapshot), {}, [])
    assert served(metrics)["cotenant_gpus_ready", "H100"] == 4.0
