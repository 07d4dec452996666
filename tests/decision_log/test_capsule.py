"""A decision with all its inputs, as bytes and back: stories of random clusters are replayed to the same lines."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.core.model.plan import Plan
from cotenant.core.policy import Policy
from cotenant.core.scheduling.scheduler import schedule
from cotenant.core.snapshot.snapshot import Snapshot
from cotenant.decision_log.capsule import Capsule, differences, plan_lines, replayed
from cotenant.decision_log.codec import CodecError, canonical, decode, encode
from cotenant.decision_log.digest import SnapshotDigests
from tests.core.worlds.stories import Draw, draw_job, draw_node, draw_queues
from tests.support.clusters import ToyCluster, make_job, make_node, make_queue, make_snapshot


def drawn(seed: int) -> tuple[Snapshot, Policy]:
    """Some cycles into a random story: jobs run, wait and were promised places."""
    draw = Draw(seed)
    nodes = [draw_node(draw, index) for index in range(draw.number(2, 5))]
    queues = draw_queues(draw)
    policy = Policy(protected_runtime_s=draw.one((0, 300)), moves=draw.one((4, 1)))
    toy = ToyCluster(nodes, queues, policy=policy)
    for index in range(draw.number(1, 12)):
        toy.observe(draw_job(draw, index, queues, toy.now))
        if draw.chance(40):
            toy.cycle()
            toy.now += 30.0
    return toy.snapshot(), policy


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000))
def test_any_decision_is_replayed_to_the_same_bytes(seed: int) -> None:
    snapshot, policy = drawn(seed)
    capsule = Capsule.of(snapshot, policy, schedule(snapshot, policy), "0.1")
    read = Capsule.from_bytes(capsule.to_bytes())
    assert read == capsule
    assert read.to_bytes() == capsule.to_bytes()
    assert differences(read, replayed(read)) == ()


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000))
def test_a_snapshot_is_the_same_value_after_it_was_text(seed: int) -> None:
    snapshot, _ = drawn(seed)
    assert decode(Snapshot, json.loads(canonical(snapshot))) == snapshot


SNAPSHOT = make_snapshot(
    nodes=[make_node("n1"), make_node("n2")],
    queues=[make_queue("red", guaranteed=2)],
    jobs=[make_job("a"), make_job("b", gpus=9)],
)


def test_a_digest_is_of_the_contents_and_of_no_order() -> None:
    digests = SnapshotDigests()
    same = replace(SNAPSHOT, nodes=SNAPSHOT.nodes[::-1], jobs=SNAPSHOT.jobs[::-1])
    assert digests.of(SNAPSHOT) == digests.of(same) == SnapshotDigests().of(SNAPSHOT)


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(0, 10_000), min_size=2, max_size=4))
def test_a_digest_that_goes_on_from_others_is_that_of_the_snapshot_alone(seeds: list[int]) -> None:
    """Whatever came, changed and went in between."""
    digests = SnapshotDigests()
    for seed in seeds:
        snapshot, _ = drawn(seed)
        assert digests.of(snapshot) == SnapshotDigests().of(snapshot)


@pytest.mark.parametrize(
    "changed",
    [
        replace(SNAPSHOT, now=SNAPSHOT.now + 1),
        replace(SNAPSHOT, nodes=SNAPSHOT.nodes[:1]),
        replace(SNAPSHOT, nodes=(SNAPSHOT.nodes[0], replace(SNAPSHOT.nodes[1], ready=False))),
        replace(SNAPSHOT, queues=(replace(SNAPSHOT.queues[0], weight=2),)),
        replace(SNAPSHOT, jobs=(SNAPSHOT.jobs[0], replace(SNAPSHOT.jobs[1], priority=1))),
        replace(SNAPSHOT, evicted=("red/a",)),
    ],
    ids=["time", "a node gone", "a node other", "a queue", "a job", "evicted"],
)
def test_another_input_has_another_digest(changed: Snapshot) -> None:
    digests = SnapshotDigests()
    before = digests.of(SNAPSHOT)
    assert digests.of(changed) != before
    assert digests.of(SNAPSHOT) == before


def test_another_plan_differs_by_the_lines_that_are_other() -> None:
    plan = schedule(SNAPSHOT, Policy())
    capsule = Capsule.of(SNAPSHOT, Policy(), replace(plan, verdicts={}))
    found = differences(capsule, replayed(capsule))
    assert [line[:20] for line in found] == ['+ Verdict {"ahead":"']
    swapped = replace(capsule, plan=tuple(plan_lines(plan))[::-1])
    assert differences(swapped, replayed(swapped)) == ("the same lines in another order",)


def test_a_plan_without_anything_has_no_lines() -> None:
    assert tuple(plan_lines(Plan())) == ()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"nothing", "no decision capsule"),
        (b"[]", "does not say format"),
        (gzip.compress(b"{}")[:-4], "no decision capsule"),
        (json.dumps({"format": "cotenant.dev/decision-capsule", "version": 2}).encode(), "version 2"),
        (
            json.dumps(Capsule.of(SNAPSHOT, Policy(), Plan()).to_document() | {"digest": "0"}).encode(),
            "its digest is another",
        ),
        (
            json.dumps(Capsule.of(SNAPSHOT, Policy(), Plan()).to_document() | {"snapshot": {"now": "soon"}}).encode(),
            "now: could not convert",
        ),
    ],
    ids=["text", "a list", "cut off", "newer", "changed", "of another kind"],
)
def test_what_is_no_capsule_is_refused_with_why(data: bytes, says: str) -> None:
    with pytest.raises(CodecError, match=says):
        Capsule.from_bytes(data)


def test_a_value_of_another_kind_is_a_defect_and_no_text() -> None:
    with pytest.raises(TypeError, match="object is no value"):
        encode(object())
