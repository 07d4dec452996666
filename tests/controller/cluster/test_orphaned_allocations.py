"""What pods that no placement covers hold, as the core sees them."""

from __future__ import annotations

from dataclasses import replace

from cotenant.controller.cluster.orphaned_allocations import orphaned_allocations
from cotenant.controller.informers.job_record import JobId
from cotenant.controller.manifests.attempt import HostAmounts
from cotenant.core.model.objects import NodePlacement
from tests.controller.builders import UID, exited, placement_on, pod, server

JOB = JobId("red", "train", UID)


def test_the_pods_of_one_attempt_are_one_job_that_is_leaving() -> None:
    left = [
        replace(pod(rank, node=node), requests=HostAmounts(1500, 1000, 700), added=HostAmounts(scratch_mib=200))
        for rank, node in ((1, "n2"), (0, "n1"))
    ]
    (found,) = orphaned_allocations(left, JOB, "red").values()
    assert found.key == f"red/train#{UID}-1"
    assert (found.uid, found.namespace, found.queue) == (UID, "red", "red")
    assert found.placement is not None
    assert [part.node for part in found.placement.nodes] == ["n1", "n2"]
    assert (found.workers_min, found.workers_max) == (2, 2)
    assert (found.cpu_milli, found.memory_mib, found.scratch_mib) == (1500, 1000, 500)
    assert (found.evicting, found.preemptible, found.submitted_at, found.admitted_at) == (True, False, 0.0, 0.0)


def test_a_pod_of_rank_0_that_asks_for_more_holds_that_on_its_node() -> None:
    left = []
    parts = placement_on(("n1", 2), ("n2", 1)).nodes
    for rank, (part, cpu, memory, scratch) in enumerate(
        zip(parts, (9000, 1500), (4000, 1000), (8000, 3000), strict=True)
    ):
        bare = pod(rank, node=part.node)
        assert bare.worker is not None
        worker = replace(bare.worker, placement=part)
        left.append(replace(bare, worker=worker, requests=HostAmounts(cpu, memory, scratch)))
    (found,) = orphaned_allocations(left, JOB, "red").values()
    assert found.placement is not None
    shown = [found.host_amounts(part.ranks) for part in found.placement.nodes]
    assert shown == [(9000, 4000, 8000), (1500, 1000, 3000)]
    (without,) = orphaned_allocations(left[1:], JOB, "red").values()
    assert (without.cpu_milli, without.chief_cpu_milli) == (1500, None)


def test_a_pod_with_one_rank_is_one_worker() -> None:
    (found,) = orphaned_allocations([replace(pod(0), requests=HostAmounts(1500, 1000))], JOB, "red").values()
    assert (found.workers_min, found.cpu_milli, found.memory_mib) == (1, 1500, 1000)


def test_a_pod_whose_contract_names_no_rank_counts_as_one_worker() -> None:
    bare = pod(0)
    assert bare.worker is not None
    worker = replace(bare.worker, placement=NodePlacement(node="n1", ranks=()))
    (found,) = orphaned_allocations([replace(bare, worker=worker, requests=HostAmounts(1500))], JOB, "red").values()
    assert (found.workers_min, found.cpu_milli) == (1, 1500)


def test_each_attempt_is_one_of_its_own() -> None:
    found = orphaned_allocations([pod(0), pod(0, attempt=2, node="n2")], JOB, "red")
    assert sorted(found) == [f"red/train#{UID}-1", f"red/train#{UID}-2"]


def test_pods_that_have_ended_and_servers_hold_no_gpus() -> None:
    assert orphaned_allocations([pod(0, end=exited(0)), server(nodes=1)], JOB, "red") == {}
