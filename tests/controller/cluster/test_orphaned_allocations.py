"""What pods that no placement covers hold, and a job whose spec cannot be read any more, as the core sees them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant.controller.cluster.orphaned_allocations import orphaned_allocations, unreadable_job
from cotenant.controller.informers.job_record import JobId, read_job
from cotenant.core.model.lifecycle import Phase
from cotenant.core.model.objects import NodePlacement
from tests.controller.builders import T0, UID, admitted, exited, job_document, placement_on, pod, server

JOB = JobId("red", "train", UID)


def test_the_pods_of_one_attempt_are_one_job_that_is_leaving() -> None:
    left = [replace(pod(rank, node=node), cpu_milli=1500, memory_mib=1000) for rank, node in ((1, "n2"), (0, "n1"))]
    (found,) = orphaned_allocations(left, JOB, "red").values()
    assert found.key == f"red/train#{UID}-1"
    assert (found.uid, found.namespace, found.queue) == (UID, "red", "red")
    assert found.placement is not None
    assert [part.node for part in found.placement.nodes] == ["n1", "n2"]
    assert (found.workers_min, found.workers_max) == (2, 2)
    assert (found.cpu_milli, found.memory_mib) == (1500, 1000)
    assert (found.evicting, found.preemptible, found.submitted_at, found.admitted_at) == (True, False, 0.0, 0.0)


def test_a_pod_with_one_rank_is_one_worker() -> None:
    (found,) = orphaned_allocations([replace(pod(0), cpu_milli=1500, memory_mib=1000)], JOB, "red").values()
    assert (found.workers_min, found.cpu_milli, found.memory_mib) == (1, 1500, 1000)


def test_a_pod_whose_contract_names_no_rank_counts_as_one_worker() -> None:
    bare = pod(0)
    assert bare.worker is not None
    worker = replace(bare.worker, placement=NodePlacement(node="n1", ranks=()))
    (found,) = orphaned_allocations([replace(bare, worker=worker, cpu_milli=1500)], JOB, "red").values()
    assert (found.workers_min, found.cpu_milli) == (1, 1500)


def test_each_attempt_is_one_of_its_own() -> None:
    found = orphaned_allocations([pod(0), pod(0, attempt=2, node="n2")], JOB, "red")
    assert sorted(found) == [f"red/train#{UID}-1", f"red/train#{UID}-2"]


def test_pods_that_have_ended_and_servers_hold_no_gpus() -> None:
    assert orphaned_allocations([pod(0, end=exited(0)), server(nodes=1)], JOB, "red") == {}


@pytest.mark.parametrize(
    ("spec", "queue", "evictable"),
    [
        ({"gracePeriod": "8760h"}, "red", True),
        ({"queue": "no name of a queue"}, "", False),
        ({"queue": 5}, "", False),
        ({}, "red", False),
    ],
    ids=["of a bound that is new", "without a queue", "with nonsense for a queue", "of which no decision can be made"],
)
def test_a_job_that_cannot_be_worked_with_keeps_its_placement_and_can_be_evicted_where_its_queue_is_known(
    spec: dict[str, Any], queue: str, evictable: bool
) -> None:
    record = replace(read_job(job_document(**spec)), status=admitted(Phase.RUNNING, ("n1", 2)))
    placement = placement_on(("n1", 2))
    job = unreadable_job(record, placement)
    assert (job.key, job.uid, job.queue, job.placement) == ("red/train", UID, queue, placement)
    assert (job.workers_min, job.workers_max, job.submitted_at, job.admitted_at) == (2, 2, 0.0, T0)
    assert (job.preemptible, job.evicting) == (evictable, False)


def test_a_job_that_is_leaving_is_not_asked_to_leave_again_because_it_cannot_be_read() -> None:
    record = replace(read_job(job_document(gracePeriod="8760h")), status=admitted(Phase.EVICTING, ("n1", 2)))
    assert unreadable_job(record, placement_on(("n1", 2))).evicting is True
