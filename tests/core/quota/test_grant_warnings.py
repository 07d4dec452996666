"""Queues above that would keep a grant from being used, in sentences."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.core.model.objects import Quota, TenantQueue
from cotenant.core.quota.grant_warnings import beyond_parents
from cotenant.core.quota.grants import GrantLine
from tests.support.clusters import make_queue


def queue(name: str, *quotas: Quota, parent: str | None = None) -> TenantQueue:
    return replace(make_queue(name, parent=parent), quotas=quotas)


def said(line: GrantLine, *queues: TenantQueue, name: str = "red") -> list[str]:
    return list(beyond_parents({one.name: one for one in queues}, name, line))


LINE = GrantLine(gpu_class="H100", milli=2_000)
H100 = Quota(gpu_class="H100", limit=6_000)
RED = queue("red", H100, parent="team")
ORG = queue("org", Quota(limit=64_000))


@pytest.mark.parametrize(
    ("above", "sentences"),
    [
        pytest.param((), [], id="nothing is said of lines where it has none"),
        pytest.param((Quota(limit=6_000),), [], id="nor where it may hold as much"),
        pytest.param((Quota(gpu_class="H100"),), [], id="nor where it has no limit"),
        pytest.param(
            (Quota(limit=5_000),),
            ["queue team above may hold 5 GPU of class H100, zone any, and red 6 GPU"],
            id="it may hold less",
        ),
        pytest.param(
            (Quota(limit=9_000), Quota(gpu_class="H100", limit=4_500), Quota(gpu_class="A100", limit=1_000)),
            ["queue team above may hold 4.5 GPU of class H100, zone any, and red 6 GPU"],
            id="the lowest of the limits that count the same GPUs",
        ),
        pytest.param(
            (Quota(gpu_class="A100", limit=9_000),),
            ["queue team above has no quota that covers class H100, zone any"],
            id="another class",
        ),
        pytest.param(
            (Quota(zone="east", limit=9_000),),
            ["queue team above has no quota that covers class H100, zone any"],
            id="one zone of those in which it may lie",
        ),
    ],
)
def test_a_queue_above_with_a_lower_limit_is_named(above: tuple[Quota, ...], sentences: list[str]) -> None:
    assert said(LINE, RED, queue("team", *above, parent="org"), ORG) == sentences


def test_the_queues_above_are_named_nearest_first() -> None:
    above = [queue("team", Quota(limit=5_000), parent="org"), queue("org", Quota(limit=1_000))]
    assert said(LINE, RED, *above) == [
        "queue team above may hold 5 GPU of class H100, zone any, and red 6 GPU",
        "queue org above may hold 1 GPU of class H100, zone any, and red 6 GPU",
    ]


def test_a_quota_line_without_a_limit_is_called_unlimited() -> None:
    line = GrantLine(zone="east", milli=1_000)
    free = queue("red", Quota(zone="east", guaranteed=1_000), Quota(limit=1_000), parent="team")
    assert said(line, free, queue("team", Quota(zone="east", limit=8_000))) == [
        "queue team above may hold 8 GPU of class any, zone east, and red as much as it likes",
    ]


def test_a_circle_of_parents_is_walked_once() -> None:
    above = [queue("team", Quota(limit=1_000), parent="org"), queue("org", Quota(limit=1_000), parent="team")]
    assert len(said(LINE, RED, *above)) == 2
    assert len(said(LINE, replace(RED, parent="red"))) == 0


@pytest.mark.parametrize(
    ("line", "name"),
    [(replace(LINE, user="ann"), "red"), (LINE, "gone")],
    ids=["a grant of one user", "a queue that is gone"],
)
def test_no_warning_is_given_for(line: GrantLine, name: str) -> None:
    assert said(line, RED, queue("team", Quota(limit=1_000)), name=name) == []


PROMISES = GrantLine(gpu_class="H100", milli=0, guaranteed=2_000)


def guaranteed(milli: int, gpu_class: str | None = "H100", zone: str | None = None) -> Quota:
    return Quota(gpu_class=gpu_class, zone=zone, guaranteed=milli)


@pytest.mark.parametrize(
    ("line", "parent", "sibling", "sentences"),
    [
        pytest.param(
            PROMISES, (guaranteed(4_000),), (guaranteed(3_000),),
            ["queue team is guaranteed 4 GPU of class H100, zone any, and the queues below it 5 together,"
             " so each of their guarantees counts for less"],
            id="more together than the queue above",
        ),
        pytest.param(PROMISES, (guaranteed(5_000),), (guaranteed(3_000),), [], id="just as much"),
        pytest.param(PROMISES, (guaranteed(4_000),), (guaranteed(3_000, "A100"),), [], id="of another class"),
        pytest.param(
            PROMISES, (guaranteed(4_000),), (guaranteed(3_000, zone="east"),), [], id="of a zone, counted apart"
        ),
        pytest.param(PROMISES, (guaranteed(1_000, None),), (guaranteed(3_000),), [], id="counted otherwise"),
        pytest.param(
            replace(PROMISES, guaranteed=0), (guaranteed(1_000),), (guaranteed(3_000),), [], id="it promises nothing"
        ),
        pytest.param(
            replace(PROMISES, gpu_class=None), (guaranteed(1_000, None),), (guaranteed(3_000, None),),
            ["queue team is guaranteed 1 GPU of class any, zone any, and the queues below it 3 together,"
             " so each of their guarantees counts for less"],
            id="of any class",
        ),
        pytest.param(
            replace(PROMISES, zone="east"), (guaranteed(1_000, zone="east"),), (guaranteed(3_000, zone="east"),),
            ["queue team is guaranteed 1 GPU of class H100, zone east, and the queues below it 3 together,"
             " so each of their guarantees counts for less"],
            id="of one zone",
        ),
    ],
)  # fmt: skip
def test_a_warning_names_guarantees_that_the_parent_cannot_back(
    line: GrantLine, parent: tuple[Quota, ...], sibling: tuple[Quota, ...], sentences: list[str]
) -> None:
    queues = (
        queue("red", guaranteed(2_000), parent="team"),
        queue("blue", *sibling, parent="team"),
        queue("green", guaranteed(9_000), parent="org"),
        queue("team", *parent),
    )
    assert [sentence for sentence in said(line, *queues) if "together" in sentence] == sentences


def test_a_root_queue_gets_no_warning() -> None:
    assert said(PROMISES, queue("red", guaranteed(2_000))) == []
