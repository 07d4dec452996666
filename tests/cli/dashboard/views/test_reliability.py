"""Reliability and showback: sums of what jobs say."""

from __future__ import annotations

from cotenant.dashboard.reading.rows import HeldShare, JobRow
from cotenant.dashboard.views.reliability import reliability_view, showback_view
from cotenant.dashboard.views.wish import Wish

NOW = 1_000_000.0


def row(name: str, phase: str = "Pending", **more: object) -> JobRow:
    return JobRow(namespace="red", name=name, phase=phase, queue="a", **more)  # type: ignore[arg-type]


def shares(*milli: int) -> tuple[HeldShare, ...]:
    return tuple(HeldShare(node="n", rank=0, uuid=f"g{at}", memory_mib=1, milli=one) for at, one in enumerate(milli))


JOBS = [
    row("s", "Succeeded", gpu_ms=3_600_000, restarts=1),
    row("f", "Failed", gpu_ms=1_200_000, exit_reason="Error"),
    row("r", "Running", gpu_ms=600_000, shares=shares(1000, 500), saved_at=NOW - 100, started=NOW - 900),
    row("n", "Running", shares=shares(1000), started=NOW - 50, eviction="Preempted"),
]


def test_reliability_is_sums_of_what_jobs_say() -> None:
    view = reliability_view(JOBS, Wish(), NOW)
    total = view.total
    assert (total.jobs, total.succeeded, total.failed, total.restarts, total.never_saved) == (4, 1, 1, 1, 1)
    assert total.succeeded_share == 0.75
    assert total.unsaved_s == 100 * 1.5 + 50
    assert total.hours_each_restart == 5_400_000 / 3_600_000
    assert view.causes == (("Error", 1),)
    assert view.evictions == (("Preempted", 1),)
    assert reliability_view([], Wish(), NOW).total.succeeded_share is None


def test_showback_adds_up_by_queue_and_namespace() -> None:
    other = JobRow(namespace="blue", name="x", queue="a", gpu_ms=9_000_000)
    view = showback_view([*JOBS, other], Wish())
    assert [(one.namespace, one.jobs, one.gpu_hours, one.gpus) for one in view.rows.items] == [
        ("blue", 1, 2.5, 0),
        ("red", 4, 1.5, 2.5),
    ]
    assert (view.total.jobs, view.total.gpu_hours) == (5, 4.0)
