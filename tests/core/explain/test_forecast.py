"""Starts of waiting jobs if running jobs end as they declare."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.core.allocation.allocation import Allocation, AllocationBatch
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.cycle.outcome import CycleOutcome
from cotenant.core.cycle.running_jobs import RunningJobs
from cotenant.core.explain.forecast import Forecast, endings_of
from cotenant.core.explain.inadmissible import RequestResolver
from cotenant.core.gpus.inventory import Inventory
from cotenant.core.model.moment import Moment
from cotenant.core.model.objects import GpuRequest, Job
from cotenant.core.model.plan import Evict, EvictionKind
from cotenant.core.policy import Policy
from cotenant.core.quota.tree import QueueTree
from cotenant.core.quota.usage import Charge
from tests.support.clusters import make_job, make_node, make_placement, make_queue, make_snapshot


def busy(name: str, node: str, column: int, **changes: object) -> Job:
    job = make_job(name, placement=make_placement((node, [[column]])), **changes)  # type: ignore[arg-type]
    return replace(job, admitted_at=900.0)


def starts(jobs: list[Job], *, gpus: int = 2) -> dict[str, float | None]:
    """Starts of the jobs that wait, in the order in which they are given."""
    queues = [make_queue("red", guaranteed=2)]
    cycle = Cycle.open(make_snapshot(nodes=[make_node("n1", gpus=gpus)], queues=queues, jobs=jobs), Policy())
    endings = endings_of(cycle.running, cycle.outcome, (), cycle.moment)
    ends, batch = [at for at, _, _ in endings], AllocationBatch([held for _, _, held in endings])
    forecast = Forecast(cycle.accounts.open_after_evictions(), ends, batch, cycle.moment.at)
    requests, found = RequestResolver(cycle.inventory, cycle.tree), dict[str, float | None]()
    for entry in cycle.entries:
        request = requests.resolve(entry.job)
        assert isinstance(request, Request)
        start = forecast.start_of(request)
        found[entry.job.key] = None if start is None else start.at
    return found


def test_a_gang_starts_when_enough_jobs_ended_and_those_ahead_have_their_place() -> None:
    jobs = [
        busy("short", "n1", 0, expected_runtime_s=200),
        busy("long", "n1", 1, expected_runtime_s=600),
        make_job("first", at=1),
        make_job("second", at=2, gpu=GpuRequest(count=1, classes=("H100",))),
        make_job("pair", at=3, gpus=2),
    ]

    assert starts(jobs) == {"red/first": 1_100.0, "red/second": 1_500.0, "red/pair": None}


def test_no_start_is_known_behind_jobs_without_a_declared_run_time() -> None:
    assert starts([busy("endless", "n1", 0), make_job("next", at=1)], gpus=1) == {"red/next": None}


def test_a_job_over_its_expected_run_time_is_assumed_to_need_its_maximum() -> None:
    jobs = [busy("late", "n1", 0, expected_runtime_s=50, max_runtime_s=300), make_job("next", at=1)]

    assert starts(jobs, gpus=1) == {"red/next": 1_200.0}


@pytest.mark.parametrize(
    ("expected", "longest", "admitted_at", "ends"),
    [
        pytest.param(200, 600, 900.0, 1_100.0, id="after its expected runtime"),
        pytest.param(101, 600, 900.0, 1_001.0, id="in a second"),
        pytest.param(100, 600, 900.0, 1_500.0, id="at its maximum, where the expected end is now"),
        pytest.param(None, 600, 900.0, 1_500.0, id="at its maximum, where nothing is expected"),
        pytest.param(100, 100, 900.0, None, id="unknown, where both have passed"),
        pytest.param(None, None, 900.0, None, id="unknown, where nothing is declared"),
        pytest.param(200, 600, None, None, id="unknown, before it was admitted"),
    ],
)
def test_a_job_is_forecast_to_end(
    expected: int | None, longest: int | None, admitted_at: float | None, ends: float | None
) -> None:
    job = make_job("a", expected_runtime_s=expected, max_runtime_s=longest, admitted_at=admitted_at)

    assert endings(running_of(job), 1_000.0) == ([] if ends is None else [(ends, "red/a")])


def test_a_bounded_number_of_the_soonest_endings_is_tried() -> None:
    """Six hundred jobs run; the later half started in this cycle."""
    tree = QueueTree.of([], Inventory.of([]))
    nothing = Allocation((), Charge(-1, "", ()))
    jobs = [replace(make_job(f"j{number}", expected_runtime_s=600 - number), admitted_at=0.0) for number in range(600)]
    running = RunningJobs({job.key: job for job in jobs[:300]}, {job.key: nothing for job in jobs[:300]}, tree)

    found = endings_of(running, CycleOutcome(), [(job, nothing) for job in jobs[300:]], Moment(0.0))

    assert [(at, key) for at, key, _ in found] == [(600 - number, f"red/j{number}") for number in range(599, 87, -1)]


def endings(running: RunningJobs, now: float, outcome: CycleOutcome | None = None) -> list[tuple[float, str]]:
    return [(at, key) for at, key, _ in endings_of(running, outcome or CycleOutcome(), [], Moment(now))]


def running_of(*jobs: Job) -> RunningJobs:
    nothing = Allocation((), Charge(-1, "", ()))
    tree = QueueTree.of([], Inventory.of([]))
    return RunningJobs({job.key: job for job in jobs}, dict.fromkeys((job.key for job in jobs), nothing), tree)


SOON = make_job("soon", expected_runtime_s=70, max_runtime_s=200, admitted_at=0.0)
LATER = make_job("later", expected_runtime_s=150, admitted_at=0.0)


def test_known_endings_are_right_at_later_and_earlier_moments() -> None:
    running = running_of(SOON, LATER)
    seen = [endings(running, now) for now in (0.0, 60.0, 70.0, 60.0, 150.0)]
    first, second = [(70.0, "red/soon"), (150.0, "red/later")], [(150.0, "red/later"), (200.0, "red/soon")]
    assert seen == [first, first, second, first, [(200.0, "red/soon")]]


def test_without_known_endings_there_is_none_at_any_moment() -> None:
    running = running_of(make_job("endless", admitted_at=0.0))
    assert [endings(running, now) for now in (0.0, 60.0)] == [[], []]


def test_jobs_that_leave_in_this_cycle_have_no_ending_and_equal_endings_come_in_order_of_key() -> None:
    twins = [replace(LATER, key=f"red/{name}") for name in ("b", "a")]
    running = running_of(SOON, *twins)
    leaves = Evict(job="red/soon", kind=EvictionKind.PREEMPTED, in_favour_of=None, message="")
    assert endings(running, 0.0, CycleOutcome(evictions={"red/soon": leaves})) == [(150.0, "red/a"), (150.0, "red/b")]
    started = replace(LATER, key="red/0", expected_runtime_s=150)
    found = endings_of(running, CycleOutcome(), [(started, running.allocations["red/a"])], Moment(0.0))
    assert [key for _, key, _ in found] == ["red/soon", "red/0", "red/a", "red/b"]
