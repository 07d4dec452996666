"""Estimated starts, from simulated futures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from math import ceil, e, inf
from typing import Any

import pytest

from cotenant.core.model.objects import Job, JobKey
from cotenant.core.outlook.estimates import Estimate, Outlook, chance_of
from cotenant.core.outlook.remaining import RemainingTimes
from cotenant.core.runtimes.runtime_history import RuntimeHistory
from cotenant.core.snapshot.snapshot import Snapshot
from cotenant.core.state.facts import NodeObserved
from tests.support.clusters import ToyCluster, make_job, make_node, make_placement, make_queue, make_snapshot

NOW = 1_000.0


def busy(name: str, column: int, **changes: object) -> Job:
    job = make_job(name, placement=make_placement(("n1", [[column]])), **changes)  # type: ignore[arg-type]
    return replace(job, admitted_at=NOW)


def cluster(*jobs: Job, gpus: int = 1, **changes: Any) -> Snapshot:
    queues = [make_queue("red", guaranteed=gpus)]
    return make_snapshot(nodes=[make_node("n1", gpus=gpus)], queues=queues, jobs=list(jobs), **changes)


def estimates(snapshot: Snapshot, ends: Mapping[JobKey, float] | None = None) -> dict[str, Estimate]:
    outlook = Outlook()
    outlook.observe(snapshot, ends or {})
    while outlook.step():
        pass
    return {key.removeprefix("red/"): one for key, one in outlook.estimates().items()}


def starts(snapshot: Snapshot, ends: Mapping[JobKey, float] | None = None) -> dict[str, float]:
    return {name: one.p50 - NOW for name, one in estimates(snapshot, ends).items()}


def test_equal_jobs_start_one_after_the_other() -> None:
    waiting = [make_job(f"j{number}", at=float(number), expected_runtime_s=600) for number in range(5)]

    found = estimates(cluster(busy("first", 0, expected_runtime_s=600), *waiting))

    assert {name: one.p50 - NOW for name, one in found.items()} == {f"j{n}": 600.0 * (n + 1) for n in range(5)}
    assert [found[f"j{number}"].position for number in range(5)] == [1, 2, 3, 4, 5]


def test_live_progress_counts_more_than_the_declaration() -> None:
    running = replace(busy("first", 0, expected_runtime_s=6_000), admitted_at=NOW - 100)

    found = starts(cluster(running, make_job("next")), {"red/first": NOW + 300})

    assert found["next"] == pytest.approx(300, rel=0.05)


def test_no_start_is_estimated_behind_a_job_of_unknown_run_time() -> None:
    assert starts(cluster(busy("endless", 0), make_job("next"))) == {}


def test_a_job_that_declared_nothing_ends_at_its_maximum_at_the_latest() -> None:
    assert starts(cluster(busy("first", 0, max_runtime_s=700), make_job("next"))) == {"next": 700.0}


def test_earlier_runs_of_the_template_are_a_distribution() -> None:
    """The tenth of eleven plays starts the job after 4,200 s; its distance to the median is widened."""
    history = RuntimeHistory()
    for seconds in (250, 500, 1_000, 2_000, 4_000):
        history.record(make_job("train-1"), seconds)

    found = estimates(cluster(busy("train-17", 0), make_job("next"), runtimes=history.learned()))["next"]

    assert found.p50 - NOW == pytest.approx(1_000, rel=0.1)
    assert found.p90 - NOW == pytest.approx(5_000, rel=0.1)


def test_declared_run_times_are_corrected_by_the_errors_of_earlier_ones() -> None:
    history = RuntimeHistory()
    for number in range(10):
        history.record(make_job(f"other{number}", expected_runtime_s=100), 300)

    found = starts(cluster(busy("big", 0, expected_runtime_s=1_000), make_job("next"), runtimes=history.learned()))

    assert found == {"next": pytest.approx(3_000, rel=0.01)}


def test_a_gang_keeps_its_reservation_and_jobs_that_end_in_time_go_before_it() -> None:
    running = [busy(f"busy{column}", column, expected_runtime_s=600) for column in range(2)]
    gang = make_job("gang", workers=4, at=1, expected_runtime_s=500)
    long, short = (make_job(name, at=2, expected_runtime_s=s) for name, s in (("long", 900), ("short", 600)))

    found = starts(cluster(*running, gang, long, short, gpus=4))

    assert found == {"short": 0.0, "gang": 600.0, "long": 1_100.0}


def test_a_job_that_started_in_the_first_play_is_estimated_before_that_play_ends() -> None:
    """The 90th percentile is not known yet."""
    waiting = [make_job(f"j{number}", at=float(number), expected_runtime_s=600) for number in range(3)]
    outlook = Outlook()
    outlook.observe(cluster(busy("first", 0, expected_runtime_s=600), *waiting), {})
    seen: list[dict[str, tuple[float, float, int]]] = []
    while len(seen) < 3 and outlook.step():
        found = {key: (one.p50 - NOW, one.p90, one.position) for key, one in outlook.estimates().items()}
        if found and (not seen or found != seen[-1]):
            seen.append(found)

    one, two = {"red/j0": (600.0, inf, 1)}, {"red/j0": (600.0, inf, 1), "red/j1": (1_200.0, inf, 2)}
    assert seen[:2] == [one, two]


def test_a_later_job_is_estimated_from_the_plays_that_include_it() -> None:
    running, waits = busy("first", 0, expected_runtime_s=600), make_job("waits", expected_runtime_s=100)
    outlook = Outlook()
    outlook.observe(cluster(running, waits), {})
    while outlook.step():
        pass
    outlook.observe(cluster(running, waits, make_job("came", at=1.0)), {})
    while "red/came" not in (found := outlook.estimates()):
        assert outlook.step()

    assert {key: one.p50 - NOW for key, one in found.items()} == {"red/waits": 600.0, "red/came": 700.0}


def test_a_play_that_reuses_results_of_another_gives_the_same_estimates() -> None:
    """The second play has a node less, the third has it again."""
    jobs = [make_job(f"j{number}", at=float(number), expected_runtime_s=600) for number in range(5)]
    up = ToyCluster([make_node("n1", gpus=2), make_node("n2", gpus=1)], [make_queue("red", guaranteed=3)], jobs)
    outlook = Outlook()
    for ready in (True, False, True):
        up.state.observe(NodeObserved(make_node("n2", gpus=1, ready=ready)))
        outlook.observe(up.snapshot(), {})
        alone = Outlook()
        alone.observe(up.snapshot(), {})
        while outlook.step() | alone.step():
            pass
        assert outlook.estimates() == alone.estimates()


def taught(*starts: tuple[float, float]) -> Estimate:
    """The estimate of a job that starts after 600 s in every play. `starts`: (when queue red's earlier jobs started,
    the 90th percentile that they had been told)."""
    outlook = Outlook()
    for started_at, p90 in starts:
        outlook.learn("red", Estimate(0.0, 50.0, p90, 1), started_at)
    outlook.observe(cluster(busy("first", 0, expected_runtime_s=600), make_job("next")), {})
    while outlook.step():
        pass
    return outlook.estimates()["red/next"]


@pytest.mark.parametrize(
    ("started_at", "p90", "late_s"),
    [
        pytest.param(100.0, 100.0, 600.0, id="a start just in time: it comes no earlier than the median"),
        pytest.param(100.5, 100.0, 600.0 * e**0.045, id="a late start moves it up"),
        pytest.param(100.5, inf, 600.0, id="an estimate without a 90th percentile teaches nothing"),
    ],
)
def test_the_90th_percentile_is_corrected_by_earlier_starts(started_at: float, p90: float, late_s: float) -> None:
    found = taught((started_at, p90))

    assert (found.p50 - NOW, found.p90 - NOW) == pytest.approx((600.0, late_s))


def test_nine_starts_in_time_make_up_for_a_late_one() -> None:
    assert taught((200.0, 100.0), *[(50.0, 100.0)] * 9).p90 == pytest.approx(taught().p90)


def test_a_factor_is_bounded() -> None:
    assert taught(*[(200.0, 100.0)] * 100).p90 - NOW == pytest.approx(600.0 * e**3)


def test_queues_learn_apart() -> None:
    outlook = Outlook()
    outlook.learn("blue", Estimate(0.0, 50.0, 100.0, 1), 200.0)
    outlook.observe(cluster(busy("first", 0, expected_runtime_s=600), make_job("next")), {})
    while outlook.step():
        pass
    assert outlook.estimates()["red/next"].p90 - NOW == pytest.approx(600.0)


def test_random_draws_are_spread_evenly_over_jobs_and_plays() -> None:
    of_jobs = Counter(int(10 * chance_of(make_job(f"j{number}"), 0)) for number in range(2_000))
    of_plays = sorted(chance_of(make_job("a"), number) for number in range(11))

    assert set(of_jobs) == set(range(10))
    assert max(of_jobs.values()) <= 260
    assert max(after - before for before, after in pairwise(of_plays)) <= 0.15


def test_the_factor_is_learned_until_nine_tenths_of_the_estimates_hold() -> None:
    """Waits are twice as long as the plays say, and vary: those of every twentieth job four times as much."""
    outlook, late = Outlook(), 0
    outlook.observe(cluster(busy("first", 0, expected_runtime_s=600), make_job("next")), {})
    while outlook.step():
        pass
    for number in range(600):
        estimate = outlook.estimates()["red/next"]
        truth = NOW + 6 * (150 + 10 * (number * 7 % 10)) * (4 if number % 20 == 3 else 1)
        outlook.learn("red", estimate, truth)
        late += number >= 200 and truth > estimate.p90

    assert 0.08 <= late / 400 <= 0.12


def test_eleven_plays_draw_from_eleven_parts_of_the_distribution() -> None:
    """After each play the quantiles are those of the draws so far. After eleven plays there is nothing left to play."""
    history = RuntimeHistory()
    for seconds in range(1_000, 2_000, 10):
        history.record(make_job("train-1"), seconds)
    busy_job, learned = busy("train-17", 0), history.learned()
    known = RemainingTimes(learned)
    draws = [known.draw(busy_job, 0.0, NOW, chance_of(busy_job, number)) for number in range(11)]
    wanted = []
    for plays in range(1, 12):
        some = sorted(seconds for seconds in draws[:plays] if seconds is not None)
        p50, p90 = (some[ceil(quantile * plays) - 1] for quantile in (0.5, 0.9))
        wanted.append((round(p50, 3), round(p50 + 1.25 * (p90 - p50), 3)))

    outlook = Outlook()
    outlook.observe(cluster(busy_job, make_job("next"), runtimes=learned), {})
    seen: list[tuple[float, float]] = []
    while outlook.step():
        found = outlook.estimates().get("red/next")
        if found is not None and found.p90 < inf:
            pair = round(found.p50 - NOW, 3), round(found.p90 - NOW, 3)
            seen += [pair] if pair not in seen[-1:] else []

    assert seen == [pair for number, pair in enumerate(wanted) if pair not in wanted[max(0, number - 1) : number]]


def test_a_jobs_draw_in_each_play_is_its_own_and_moves_by_the_golden_section() -> None:
    first = 0.5545890  # the checksum of its uid, as a part of all there are
    golden = (5**0.5 - 1) / 2
    found = [chance_of(make_job("a"), number) for number in range(3)]
    assert found == pytest.approx([(first + number * golden) % 1.0 for number in range(3)], abs=1e-6)


def test_the_time_of_an_estimate_is_that_of_its_last_play() -> None:
    running, waits = busy("first", 0, expected_runtime_s=600), make_job("waits", expected_runtime_s=100)
    outlook = Outlook()
    outlook.observe(cluster(running, waits), {})
    while outlook.step():
        pass
    outlook.observe(cluster(running, waits, make_job("came", at=1.0), now=NOW + 60), {})
    while "red/came" not in outlook.estimates():
        outlook.step()
    assert {key: one.made_at for key, one in outlook.estimates().items()} == {"red/waits": NOW, "red/came": NOW + 60}
    while len({one.made_at for one in outlook.estimates().values()}) > 1:
        outlook.step()
    assert {key: one.made_at for key, one in outlook.estimates().items()} == dict.fromkeys(
        ("red/waits", "red/came"), NOW + 60
    )


def test_every_play_repeats_recent_arrivals() -> None:
    """Eight arrivals are enough to be repeated. Each of them goes before the waiting job."""
    past = [make_job(f"past-{number}", at=NOW - 100 * number, priority=9, expected_runtime_s=50) for number in range(9)]
    outlook = Outlook()
    outlook.observe(cluster(*past), {})
    outlook.observe(cluster(busy("first", 0, expected_runtime_s=600), make_job("waits", expected_runtime_s=50)), {})
    while outlook.step():
        pass
    assert outlook.estimates()["red/waits"].p50 > NOW + 600
