"""Latest starts, one after the other in the order of waits, for each class of GPUs."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import pytest

from cotenant.core.actions.tenure import Tenures
from cotenant.core.cycle.eviction_rules import EvictionRules
from cotenant.core.gpus.inventory import Inventory
from cotenant.core.model.moment import Moment
from cotenant.core.model.plan import StartBound
from cotenant.core.policy import Policy
from cotenant.core.quota.tree import QueueTree
from cotenant.core.scheduling.start_bounds import UNKNOWN, Waiting, bounds_in_turn
from tests.support.clusters import make_job

A, B, AB = ("A100",), ("H100",), ("A100", "H100")
H, PATIENCE = 400, 100


def one(name: str, at: float, classes: tuple[str, ...] = A, **changes: Any) -> Waiting:
    return replace(Waiting(make_job(name, at=at), classes, H), **changes)


def bounds(*waiting: Waiting) -> dict[str, StartBound]:
    """Who waits since 900 or before is overdue."""
    tree = QueueTree.of([], Inventory.of([]))
    rules = EvictionRules(tree, Policy(collect_after_s=PATIENCE), Moment(900.0 + PATIENCE), frozenset())
    found = bounds_in_turn(waiting, Tenures(rules))
    return {key.removeprefix("red/"): bound for key, bound in found.items()}


@pytest.mark.parametrize(
    ("waiting", "want"),
    [
        pytest.param([one("a", 950)], {"a": 1_450}, id="patience, then the longest hold"),
        pytest.param([one("b", 960), one("a", 950)], {"a": 1_450, "b": 1_850}, id="one after the other"),
        pytest.param([one("a", 900, reserved=StartBound(1_100))], {"a": 1_100}, id="as soon as holders have left"),
        pytest.param(
            [one("a", 800, reserved=StartBound(1_100)), one("b", 850)], {"a": 1_100, "b": 1_500}, id="then the next"
        ),
        pytest.param(
            [one("a", 800, reserved=StartBound(1_010)), one("b", 950)], {"a": 1_010, "b": 1_450}, id="once overdue"
        ),
        pytest.param([one("a", 950), one("b", 960, B)], {"a": 1_450, "b": 1_460}, id="classes beside each other"),
        pytest.param([one("a", 950, AB), one("b", 960, B)], {"a": 1_450, "b": 1_850}, id="unless one has both"),
        pytest.param([one("a", 900, longest_s=inf), one("b", 950)], {"a": inf, "b": inf}, id="behind who has none"),
        pytest.param([one("a", 800)], {"a": inf}, id="overdue, and no ending makes a place for it"),
        pytest.param([one("a", 800, reserved=StartBound())], {"a": inf}, id="overdue, and an end is missing"),
    ],
)
def test_the_latest_start_is(waiting: list[Waiting], want: dict[str, float]) -> None:
    assert {name: bound.at for name, bound in bounds(*waiting).items()} == want


def test_the_wait_begins_anew_after_a_run() -> None:
    again = replace(make_job("a", at=100.0), requeued_at=950.0)

    assert bounds(Waiting(again, A, H)) == {"a": StartBound(1_450)}


@pytest.mark.parametrize(
    ("waiting", "want"),
    [
        pytest.param([one("a", 950), one("b", 960)], {"a": "", "b": ""}, id="nothing else"),
        pytest.param([one("a", 950, longest_s=inf)], {"a": UNKNOWN}, id="no end"),
        pytest.param([one("a", 950), one("b", 960, longest_s=inf)], {"a": "", "b": UNKNOWN}, id="no end, for one"),
        pytest.param(
            [one("a", 800, reserved=StartBound(basis="a/x")), one("b", 950)],
            {"a": "a/x", "b": UNKNOWN},
            id="an end that is missing",
        ),
    ],
)
def test_the_basis_of_the_bound_is(waiting: list[Waiting], want: dict[str, str]) -> None:
    assert {name: bound.basis for name, bound in bounds(*waiting).items()} == want
