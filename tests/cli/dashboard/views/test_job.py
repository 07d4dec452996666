"""The page of a job: its ranks, the course of its progress, its events."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.dashboard.views.job import HIGH, RANKS, WIDE, event_lines, job_view
from tests.cli.dashboard.played_cluster import NOW, at, job, share

UNTIL = NOW.timestamp()
PROGRESS = {"step": 100, "of": 200, "updatedAt": at(0), "remainingSeconds": 600}


def test_a_course_runs_from_the_start_to_the_last_report_and_ahead_to_the_end() -> None:
    curve = job_view(job("red", "a", "Running", progress=PROGRESS, startedAt=at(-10)), ()).curve
    assert curve is not None
    assert curve.points == f"0.0,{HIGH:.1f} {WIDE / 2:.1f},{HIGH / 2:.1f}"
    assert curve.ahead == f"{WIDE / 2:.1f},{HIGH / 2:.1f} {WIDE:.1f},0.0"
    assert (curve.begin, curve.end, curve.steps, curve.seen) == (UNTIL - 600, UNTIL + 600, 200, 0)


def test_points_that_were_seen_are_in_it_and_a_restart_takes_the_first_away() -> None:
    document = job("red", "a", "Running", progress=PROGRESS | {"remainingSeconds": None}, startedAt=at(-10), restarts=1)
    assert job_view(document, ()).curve is None
    curve = job_view(document, ((UNTIL - 60, 50),)).curve
    assert curve is not None
    assert curve.points == f"0.0,{HIGH * 0.75:.1f} {WIDE:.1f},{HIGH / 2:.1f}"
    assert curve.ahead == ""


def test_ranks_have_their_gpus_and_say_when_they_see_others() -> None:
    ranks = [share("g1", 1), share("g0", 0, 512, 250)]
    progress = {"observedGpus": {"0": ["other"], "1": ["g1"]}, "memoryPeakMiB": {"1": 2048}}
    view = job_view(
        job("red", "a", "Running", placement={"nodes": [{"node": "n", "ranks": ranks}]}, progress=progress), ()
    )
    assert [(one.rank, one.gpus, one.uuids, one.sees, one.peak) for one in view.ranks] == [
        (0, "512Mi · 0.25", "g0", "other", ""),
        (1, "80Gi · 1", "g1", "", "2Gi"),
    ]


@pytest.mark.parametrize(
    ("spec", "profile", "chiefs"),
    [
        ({}, {}, [False, False]),
        ({"chief": {}}, {}, [True, False]),
        ({}, {"chief": {}}, [True, False]),
        ({"resources": {"cpu": 1}}, {"chief": {}}, [False, False]),
    ],
    ids=["none", "of the job", "of the profile", "not for a job with resources of its own"],
)
def test_rank_0_is_shown_as_the_chief_if_it_is_one(
    spec: dict[str, Any], profile: dict[str, Any], chiefs: list[bool]
) -> None:
    placement = {"nodes": [{"node": "n", "ranks": [share("g0", 0), share("g1", 1)]}]}
    document = job("red", "a", "Running", placement=placement, profile={"spec": profile})
    document["spec"] |= spec
    assert [one.is_chief for one in job_view(document, ()).ranks] == chiefs


def test_what_the_evaluator_does_is_on_the_page() -> None:
    told = {"state": "Restarting", "restarts": 2, "reason": "UserError", "message": "no such model"}
    assert job_view(job("red", "a", "Running", evaluator=told), ()).evaluator == told
    assert job_view(job("red", "a", "Running"), ()).evaluator == {}


def test_of_many_ranks_the_first_are_shown_and_the_others_counted() -> None:
    ranks = [share(f"g{number}", number) for number in range(RANKS + 7)]
    view = job_view(job("red", "a", "Running", placement={"nodes": [{"node": "n", "ranks": ranks}]}), ())
    assert (len(view.ranks), view.ranks_more) == (RANKS, 7)


def test_events_are_the_newest_first_by_whichever_time_they_have() -> None:
    events: list[dict[str, Any]] = [
        {"metadata": {}, "reason": "A", "lastTimestamp": at(-3), "count": 4},
        {"metadata": {"creationTimestamp": at(-2)}, "reason": "B"},
        {"metadata": {}, "reason": "C", "eventTime": at(-1)},
        {"metadata": {}, "reason": "D"},
    ]
    assert [(one.reason, one.count) for one in event_lines(events)] == [("C", 1), ("B", 1), ("A", 4), ("D", 1)]
