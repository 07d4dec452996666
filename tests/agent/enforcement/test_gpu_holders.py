"""A pod holds GPUs until its processes are gone. A process without a grant is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant_agent.enforcement.gpu_holders import (
    HOLDERS_MAX,
    Evidence,
    GpuHolder,
    Holders,
    PodsOnNode,
    StrangerOnGpu,
    hold,
    listed,
    not_to_be_handed_out,
    strangers,
)
from cotenant_agent.enforcement.quota import PodGpu, PodQuota

GRANT = PodQuota(pod_uid="a", namespace="red", pod="a-1-0", quota_mib={"GPU-a": 1000}, grace_s=30)
BOUND = PodsOnNode(grants={"a": GRANT})
GONE = PodsOnNode()
ENDED = PodsOnNode(ended=frozenset({"a"}))
HELD: Holders = {"a": GpuHolder(grant=GRANT, since=100.0, evidence=Evidence.POD)}


@pytest.mark.parametrize(
    ("pods", "on_gpu", "running", "evidence"),
    [
        pytest.param(BOUND, False, frozenset(), Evidence.POD, id="bound, though nothing of it runs yet"),
        pytest.param(GONE, False, frozenset({"a"}), Evidence.PROCESSES, id="force-deleted, and its processes live"),
        pytest.param(GONE, True, frozenset(), Evidence.GPU, id="force-deleted, and on the GPU"),
        pytest.param(ENDED, False, frozenset({"a"}), Evidence.PROCESSES, id="ended by word, and its processes live"),
        pytest.param(GONE, False, frozenset({"b"}), None, id="force-deleted, and nothing of it lives"),
        pytest.param(ENDED, False, frozenset(), None, id="ended"),
        pytest.param(GONE, False, None, Evidence.POD, id="force-deleted, and nobody knows what runs"),
        pytest.param(ENDED, False, None, None, id="ended by the kubelet's word, and nobody knows more"),
    ],
)
def test_a_pod_holds_its_gpus_as_long_as_anything_shows_it(
    pods: PodsOnNode, on_gpu: bool, running: frozenset[str] | None, evidence: Evidence | None
) -> None:
    usage = {PodGpu("a", "GPU-a"): 0} if on_gpu else {}
    found = hold(HELD, pods, usage, lambda: running, now=200.0)
    left_at = None if pods is BOUND else 200.0
    expected = {"a": GpuHolder(grant=GRANT, since=100.0, evidence=evidence, left_at=left_at)} if evidence else {}
    assert found == expected


def test_where_nobody_knows_what_runs_it_is_waited_for_its_grace_period_and_a_minute() -> None:
    holders, there = HELD, []
    for now in (200.0, 230.0, 289.0, 290.0):
        holders = hold(holders, GONE, {}, lambda: None, now)
        there.append(bool(holders))
    assert there == [True, True, True, False]


def test_what_runs_is_looked_for_only_while_a_holder_has_no_pod() -> None:
    def asked() -> frozenset[str]:
        raise AssertionError("every pod is there")

    assert hold(HELD, BOUND, {}, asked, now=1.0).keys() == {"a"}


def test_a_pod_that_comes_back_after_a_gap_of_the_watch_goes_on_as_before() -> None:
    left = hold(HELD, GONE, {}, lambda: frozenset({"a"}), now=200.0)
    assert hold(left, BOUND, {}, frozenset, now=201.0) == HELD


USED = {PodGpu("", "GPU-a"): 127, PodGpu("a", "GPU-a"): 900, PodGpu("a", "GPU-b"): 5, PodGpu("b", "GPU-a"): 7}


def test_strangers_are_who_is_on_a_gpu_without_a_grant_of_it() -> None:
    found: tuple[StrangerOnGpu, ...] = ()
    for poll in range(4):
        found = strangers(found, USED | {PodGpu("", "GPU-b"): 128}, HELD, now=float(poll))
    assert [(one.pod_uid, one.gpu_uuid, one.memory_mib, one.reason, one.since, one.polls) for one in found] == [
        ("b", "GPU-a", 7, "pod b uses 7 MiB and was granted no GPU", 0.0, 3),
        ("", "GPU-b", 128, "processes outside pods use 128 MiB", 0.0, 3),
        ("a", "GPU-b", 5, "pod red/a-1-0 uses 5 MiB and was granted other GPUs", 0.0, 3),
    ]
    assert list(not_to_be_handed_out(HELD, found)) == ["GPU-a", "GPU-b"]


def test_a_stranger_counts_from_the_third_look_in_a_row() -> None:
    found: tuple[StrangerOnGpu, ...] = ()
    blocked = []
    for poll, there in enumerate([True, True, False, True, True, True]):
        found = strangers(found, {PodGpu("b", "GPU-a"): 7} if there else {}, HELD, now=float(poll))
        blocked.append(bool(not_to_be_handed_out(HELD, found)))
    assert blocked == [False, False, False, False, False, True]


def test_what_the_status_has_no_room_for_is_said_at_its_gpus() -> None:
    many = {
        f"p{i}": GpuHolder(
            grant=replace(GRANT, pod_uid=f"p{i}", quota_mib={f"GPU-{i % 4}": 1}), since=float(i), evidence=Evidence.POD
        )
        for i in range(HOLDERS_MAX + 1)
    }
    assert [one.grant.pod_uid for one in listed(many)] == [f"p{i}" for i in range(HOLDERS_MAX)]
    assert not_to_be_handed_out(many, ()) == {"GPU-0": "Unlisted: more than 512 pods hold GPUs of this node"}
