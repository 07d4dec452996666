"""An administrator's wish for a job to lie elsewhere: read strictly, or not at all."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.api.conversion.job_moves import JobMove, read_move, with_move
from tests.support.clusters import make_job

GIVEN: dict[str, Any] = {
    "attempt": 2,
    "until": "2026-01-01T00:00:00Z",
    "off": ["n1"],
    "to": ["n2", "n3"],
    "class": "L4",
}


def test_all_that_is_said_is_read() -> None:
    nodes = frozenset({"n2", "n3"})
    assert read_move(json.dumps(GIVEN)) == JobMove(
        attempt=2, until=1_767_225_600.0, nodes=nodes, avoided=frozenset({"n1"}), gpu_class="L4"
    )


@pytest.mark.parametrize(
    "change",
    [
        {"attempt": "2"},
        {"attempt": True},
        {"attempt": None},
        {"until": "soon"},
        {"until": "2026-01-01T00:00:00"},
        {"until": 7},
        {"to": "n2"},
        {"to": [1]},
        {"off": [""]},
        {"class": 4},
    ],
)
def test_what_is_not_understood_says_nothing(change: dict[str, Any]) -> None:
    assert read_move(json.dumps(GIVEN | change)) is None


@given(st.one_of(st.text(max_size=200), st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps)))
def test_nothing_that_can_be_written_there_is_more_than_no_wish(text: str) -> None:
    assert read_move(text) is None


@pytest.mark.parametrize(
    ("classes", "wish", "refused"),
    [
        ((), {}, "say where it is to lie: to or off nodes, or a class"),
        (("H100",), {"gpu_class": "L4"}, "its request names H100, and not L4"),
        (("H100", "L4"), {"gpu_class": "L4"}, ""),
        ((), {"gpu_class": "L4"}, ""),
        (("H100",), {"nodes": frozenset({"n2"})}, ""),
    ],
)
def test_a_job_goes_nowhere_where_its_request_would_not_let_it(
    classes: tuple[str, ...], wish: dict[str, Any], refused: str
) -> None:
    job = make_job("train", classes=classes, excluded_nodes=frozenset({"n9"}))
    move = JobMove(attempt=1, until=0.0, avoided=frozenset({"n1"}) if wish else frozenset(), **wish)
    assert move.refusal(job) == refused
    if refused:
        assert with_move(job, move) == job
        return
    asked = with_move(job, move)
    assert asked == replace(
        job,
        gpu=replace(job.gpu, classes=("L4",) if "gpu_class" in wish else classes),
        excluded_nodes=frozenset({"n1", "n9"}),
        only_nodes=wish.get("nodes", frozenset()),
        move_asked=True,
    )
