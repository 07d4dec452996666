"""Guarantees and dominant shares: whose turn it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.core import Policy, schedule
from cotenant.core.model.plan import Admit
from cotenant.core.queueing.fair_share import past_shares
from cotenant.core.snapshot.snapshot import DecayedBorrowing
from cotenant.testing import make_job, make_node, make_queue, make_snapshot


def admitted(plan: object) -> list[str]:
    return [action.job for action in plan.actions if isinstance(action, Admit)]  # type: ignore[attr-defined]


def test_the_smaller_weighted_share_of_what_is_borrowed_goes_first() -> None:
    queues = [replace(make_queue("heavy", guaranteed=0), weight=3), make_queue("light", guaranteed=0)]
    jobs = [make_job(f"{queue.name[0]}{index}", queue=queue.name, at=index) for queue in queues for index in range(8)]

    plan = schedule(make_snapshot(nodes=[make_node("n1", gpus=8)], queues=queues, jobs=jobs))

    assert len([key for key in admitted(plan) if key.startswith("heavy/")]) == 6


def test_shares_are_compared_level_by_level() -> None:
    """Two teams of one department count together against the other department."""
    queues = [
        make_queue("dept-a", guaranteed=0),
        make_queue("dept-b", guaranteed=0),
        make_queue("a1", guaranteed=0, parent="dept-a"),
        make_queue("a2", guaranteed=0, parent="dept-a"),
        make_queue("b1", guaranteed=0, parent="dept-b"),
    ]
    jobs = [make_job(f"j{index}", queue=name, at=index) for name in ("a1", "a2", "b1") for index in range(8)]

    plan = schedule(make_snapshot(nodes=[make_node("n1", gpus=8)], queues=queues, jobs=jobs))

    counts = {name: len([key for key in admitted(plan) if key.startswith(name)]) for name in ("a1", "a2", "b1")}
    assert counts == {"a1": 2, "a2": 2, "b1": 4}


@pytest.mark.parametrize(
    ("gpus", "percent", "share"),
    [
        pytest.param(2, 100, 346_573, id="of two GPUs"),
        pytest.param(2, 50, 173_286, id="at half its weight"),
        pytest.param(0, 100, 693_147, id="of a cluster that has lost all its GPUs, as of one"),
    ],
)
def test_past_borrowing_counts_as_the_average_over_what_its_half_life_looks_back(
    gpus: int, percent: int, share: int
) -> None:
    """A GPU-second at a half-life of a second is ln 2 of a GPU."""
    past = DecayedBorrowing(queue="red", milli_seconds=1_000.0, half_life_s=1.0)
    nodes = [make_node("n1", gpus=gpus)]

    snapshot = make_snapshot(nodes=nodes, queues=[make_queue("red")], jobs=[], usage_history=(past,))

    assert past_shares(snapshot, Policy(share_history_percent=percent)) == {"red": share}
