"""Records behave as frozen dataclasses with slots do: both are made of the same fields, and compared."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, field, fields, is_dataclass, replace
from typing import Any

import pytest

from cotenant_worker.messaging.records import record


@record
class RankStarted:
    """A rank runs."""

    rank: int
    seconds: float = 1.5
    metrics: dict[str, float] = field(default_factory=dict)


@record
class RankEnded:
    rank: int
    seconds: float = 1.5
    metrics: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Measure:
    rank: int
    seconds: float = 1.5
    metrics: dict[str, float] = field(default_factory=dict)


def test_records_are_equal_where_class_and_fields_are() -> None:
    assert RankStarted(1, 2.0, {"loss": 1.0}) == RankStarted(1, seconds=2.0, metrics={"loss": 1.0})
    others: list[object] = [RankStarted(2), RankStarted(1, 2.0), RankStarted(1, metrics={"a": 1.0}), RankEnded(1)]
    assert [RankStarted(1) == other for other in [*others, Measure(1), (1, 1.5, {}), None]] == [False] * 7


def test_a_record_hashes_as_its_fields_do() -> None:
    @record
    class Point:
        x: int
        y: tuple[int, ...] = ()

    assert {Point(1), Point(1), Point(1, (2,)), Point(2)} == {Point(1), Point(1, (2,)), Point(2)}
    with pytest.raises(TypeError, match="unhashable type: 'dict'"):
        hash(RankStarted(1))


def test_a_record_is_shown_as_a_dataclass_is() -> None:
    assert repr(RankStarted(1)) == repr(Measure(1)).replace("Measure", "RankStarted")


@pytest.mark.parametrize(
    "change",
    [
        lambda one: setattr(one, "rank", 2),
        lambda one: setattr(one, "seconds", 1.5),
        lambda one: delattr(one, "rank"),
    ],
)
def test_no_field_of_a_record_changes(change: Callable[[Any], None]) -> None:
    one = RankStarted(1)
    with pytest.raises(FrozenInstanceError):
        change(one)
    assert one == RankStarted(1)


def test_a_record_takes_no_attribute_that_is_no_field() -> None:
    with pytest.raises(AttributeError):
        RankStarted(1).node = 3  # type: ignore[attr-defined]


def test_a_record_is_a_dataclass_for_what_reads_fields() -> None:
    assert [(each.name, each.type, each.default) for each in fields(RankStarted)] == [
        (each.name, each.type, each.default) for each in fields(Measure)
    ]
    assert replace(RankStarted(1), rank=3) == RankStarted(3)
    match RankStarted(4, 0.5):
        case RankStarted(rank, seconds):
            assert (rank, seconds) == (4, 0.5)
    assert is_dataclass(RankStarted)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_of_a_record_is_equal_to_it(copied: Callable[[RankStarted], RankStarted]) -> None:
    one = RankStarted(1, 2.0, {"loss": 1.0})
    assert copied(one) == one
