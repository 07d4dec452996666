"""Statuses that a newer release wrote."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from cotenant.api.resources.placement_status import Isolation
from cotenant.controller.client.merge_patch import difference
from cotenant.controller.execution.writes.event_recorder import MESSAGE_CHARS_MAX
from cotenant.controller.informers.job_record import read_job
from cotenant.controller.informers.status_reading import read_status
from cotenant.controller.lifecycle.observation import Observation
from cotenant.controller.lifecycle.reconcile import UNREADABLE_AGAIN_S, reconcile
from cotenant.core.model.lifecycle import Phase
from tests.controller.builders import T0, admitted, job_document, observed, pod
from tests.support.reconcile_cases import ONE, SETTINGS

FOREIGN = "AWordOfTomorrow"


def full_status() -> dict[str, Any]:
    return admitted(Phase.RUNNING, *ONE).to_document()


def words(document: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Paths of all words of enums in a status."""
    known: set[str] = {word for enum in (Phase, Isolation) for word in enum}
    for key, value in document.items() if isinstance(document, dict) else enumerate(document):
        if isinstance(value, dict | list):
            yield from words(value, (*path, key))
        elif value in known and key not in {"type", "reason"}:
            yield (*path, key)


def replaced(document: dict[str, Any], path: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    at: Any = document
    for part in path[:-1]:
        at = at[part]
    at[path[-1]] = value
    return document


ENUM_WORDS = [path for path in words(full_status()) if path[0] != "conditions"]


def test_the_status_has_words_of_every_enum() -> None:
    assert {path[0] for path in ENUM_WORDS} == {"phase", "isolation", "isolationLevels", "placement"}


@pytest.mark.parametrize("path", [path for path in ENUM_WORDS if path != ("phase",)], ids=str)
def test_an_unknown_word_reads_as_unknown_and_everything_else_as_it_is(path: tuple[str | int, ...]) -> None:
    raw = replaced(full_status(), path, FOREIGN)
    read = read_status(raw)
    assert read.problem is None
    lost = difference(full_status(), read.status.to_document())
    assert set(lost) <= {path[0]}
    assert (read.status.phase, read.status.placement is not None) == (Phase.RUNNING, True)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"phase": FOREIGN}, "status.phase: "),
        ({"placement": {"by": FOREIGN}}, "status.placement.nodes: "),
        ({"attempts": "many"}, "status.attempts: "),
    ],
    ids=["an unknown phase", "another layout of a placement", "a number that is none"],
)
def test_a_job_whose_status_cannot_be_read_is_left_alone(change: dict[str, Any], problem: str) -> None:
    record = read_job(job_document(status=full_status() | change))
    assert record.status_problem is not None
    assert record.status_problem.startswith(problem)
    o = observed(record.status, pod(0, ready=True), now=T0 + 9_999, spec={"maxRuntime": "10m"})
    left = type(o)(record=record, of_pods=o.of_pods, now=o.now)
    result = reconcile(left, SETTINGS)
    assert (result.status, result.delete_pods, result.create_pods, result.delete_job) == (None, (), False, False)


def test_an_unknown_word_in_a_field_that_cannot_be_read_costs_no_other_field() -> None:
    raw = full_status()
    raw["placement"] |= {"admittedAt": "noon", "isolation": FOREIGN}
    record = read_job(job_document(status=raw))
    assert record.status_problem is not None
    assert record.status_problem.startswith("status.placement.admittedAt: ")
    assert (record.phase, record.status.attempts) == (Phase.RUNNING, raw["attempts"])


def test_an_event_says_that_a_job_is_left_alone_for_its_status_and_what_to_do() -> None:
    record = read_job(job_document(status=full_status() | {"phase": FOREIGN}))
    left = Observation(record=record, now=T0)
    result = reconcile(left, SETTINGS)
    assert result.event is not None
    assert (result.event.reason, result.event.warning, result.event.once) == ("StatusUnreadable", True, True)
    assert "Install that release again, or mend the status: status.phase: " in result.event.message
    assert (result.acts, result.requeue_at) == (True, T0 + UNREADABLE_AGAIN_S)


def test_what_is_wrong_with_a_status_leaves_room_for_what_to_do() -> None:
    record = replace(read_job(job_document()), status_problem="status: " + "x" * 5000)
    event = reconcile(Observation(record=record, now=T0), SETTINGS).event
    assert event is not None
    assert len(event.message) < MESSAGE_CHARS_MAX


def test_what_a_newer_release_wrote_beside_it_is_not_written_over() -> None:
    raw = full_status() | {"isolation": FOREIGN, "tomorrow": {"a": 1}}
    record = read_job(job_document(status=raw))
    failed = record.status.model_copy(update={"phase": Phase.FAILED, "failures": 1})
    assert difference(record.written, failed.to_document()) == {"phase": "Failed", "failures": 1}
