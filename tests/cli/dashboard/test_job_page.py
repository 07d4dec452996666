"""Whose log the page of a job shows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cotenant import names
from cotenant.dashboard.job_page import _pod_of_rank


def pod(name: str, attempt: str, placement: str) -> dict[str, Any]:
    labels, annotations = {names.LABEL_ATTEMPT: attempt}, {names.ANNOTATION_PLACEMENT: placement}
    return {"metadata": {"name": name, "labels": labels, "annotations": annotations}}


def of_ranks(*ranks: int) -> str:
    return json.dumps({"ranks": {str(rank): {} for rank in ranks}})


FIRST = pod("first", "1", of_ranks(0, 1))
NEWEST = pod("newest", "2", of_ranks(0))


@pytest.mark.parametrize(
    ("pods", "rank", "shown"),
    [
        ([NEWEST, FIRST], 0, "newest"),
        ([FIRST, NEWEST], 0, "newest"),
        ([FIRST, NEWEST], 1, "first"),
        ([FIRST], 2, None),
        ([], 0, None),
        ([{"metadata": {"name": "server"}}], 0, None),
        ([pod("odd", "1", "{"), FIRST], 0, "first"),
        ([pod("odd", "many", of_ranks(0)), FIRST], 0, "first"),
        ([pod("odd", "9", "[]"), FIRST], 0, "first"),
    ],
    ids=[
        "the newest attempt",
        "in any order",
        "a rank that the newest does not have yet",
        "no such rank",
        "no pods",
        "a parameter server",
        "a placement that is no JSON",
        "an attempt that is no number",
        "a placement that is a list",
    ],
)
def test_a_rank_is_in_the_pod_of_its_newest_attempt(pods: list[dict[str, Any]], rank: int, shown: str | None) -> None:
    assert _pod_of_rank(pods, rank) == shown
