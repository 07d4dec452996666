"""Start times and smallest changes: exactly what the tenant is told."""

from __future__ import annotations

from dataclasses import replace

from cotenant.core import schedule
from cotenant.core.model.objects import GpuRequest, Job
from cotenant.testing import make_job, make_node, make_placement, make_queue, make_snapshot


def busy(name: str, node: str, column: int, **changes: object) -> Job:
    job = make_job(name, placement=make_placement((node, [[column]])), **changes)  # type: ignore[arg-type]
    return replace(job, admitted_at=900.0)


def test_a_gang_starts_when_enough_have_ended_and_those_ahead_have_their_place() -> None:
    jobs = [
        busy("short", "n1", 0, expected_runtime_s=200),
        busy("long", "n1", 1, expected_runtime_s=600),
        make_job("first", at=1),
        make_job("second", at=2, gpu=GpuRequest(count=1, classes=("H100",))),
        make_job("pair", at=3, gpus=2),
    ]

    plan = schedule(make_snapshot(nodes=[make_node("n1")], queues=[make_queue("red", guaranteed=2)], jobs=jobs))

    assert plan.verdicts["red/first"].estimated_start_at == 1_100.0
    assert plan.verdicts["red/second"].estimated_start_at == 1_500.0
    assert plan.verdicts["red/pair"].estimated_start_at is None


def test_nothing_is_promised_about_jobs_that_never_said_how_long_they_run() -> None:
    jobs = [busy("endless", "n1", 0), make_job("next", at=1)]

    plan = schedule(make_snapshot(nodes=[make_node("n1", gpus=1)], queues=[make_queue("red", limit=1)], jobs=jobs))

    assert plan.verdicts["red/next"].estimated_start_at is None


def test_a_job_over_its_expectation_is_taken_to_need_its_maximum() -> None:
    jobs = [busy("late", "n1", 0, expected_runtime_s=50, max_runtime_s=300), make_job("next", at=1)]

    plan = schedule(make_snapshot(nodes=[make_node("n1", gpus=1)], queues=[make_queue("red", guaranteed=1)], jobs=jobs))

    assert plan.verdicts["red/next"].estimated_start_at == 1_200.0
