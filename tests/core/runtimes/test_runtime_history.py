"""The memory of run times is bounded, and what it gave out does not change."""

from __future__ import annotations

import pytest

from cotenant.core.runtimes.runtime_history import RuntimeHistory
from tests.support.clusters import make_job


def test_only_the_last_runs_of_a_template_count() -> None:
    history = RuntimeHistory()
    for number in range(1_000):
        history.record(make_job(f"train-{number}", queue="red"), 10.0 if number < 800 else 5_000.0)
    runs = history.learned().runs_like(make_job("train-x", queue="red"))
    assert set(runs) == {5_000}
    assert len(runs) <= 128


def test_invented_names_do_not_grow_the_memory_and_recurring_names_stay() -> None:
    history = RuntimeHistory()
    for number in range(20_000):
        history.record(make_job(f"{chr(97 + number % 26) * (number // 26 % 60 + 1)}zz", queue=f"q{number % 70}"), 10.0)
        history.record(make_job("nightly-1", queue="red"), 60.0)
    learned = history.learned()
    assert len(learned.groups) <= 4_096
    assert learned.median_s(make_job("nightly-2", queue="red")) == 60


def test_many_names_in_one_queue_do_not_displace_those_of_another() -> None:
    history = RuntimeHistory()
    letters = "acdefghijklmnopqrstuvwxyz"
    quiet = [make_job(f"{letters[number // 25]}{letters[number % 25]}", queue="blue") for number in range(300)]
    for job in quiet:
        for _ in range(5):
            history.record(job, 60.0)
    before = {group: runs for group, runs in history.learned().groups.items() if "|blue|" in group}

    for number in range(9_000):
        name = "".join(letters[number // 25**place % 25] for place in range(3))
        history.record(make_job(name, queue="red", user=name), 10.0)
    groups = history.learned().groups

    assert {group: runs for group, runs in groups.items() if "|blue|" in group} == before
    assert len(before) > 600
    assert len(groups) <= 4_096


def test_an_earlier_value_of_the_history_does_not_change_when_more_is_learned() -> None:
    history = RuntimeHistory()
    job = make_job("train-1", queue="red")
    for _ in range(5):
        history.record(job, 100.0)
    before = history.learned()
    assert history.learned() is before
    history.record(job, 900.0)
    assert before.runs_like(job) == (100,) * 5
    assert history.learned().runs_like(job) == (100,) * 5 + (900,)


def test_the_ratio_of_run_time_to_declaration_is_learned_in_per_mille() -> None:
    history = RuntimeHistory()
    for ran_s in (30, 60, 90, 100, 200):
        history.record(make_job("train-1", queue="red", expected_runtime_s=100), float(ran_s))
    assert history.learned().groups["declared|red"] == (300, 600, 900, 1_000, 2_000)


@pytest.mark.parametrize(("ran_s", "counts"), [(0.9, False), (0.0, False), (1.0, True)])
def test_runs_of_less_than_a_second_teach_nothing(ran_s: float, counts: bool) -> None:
    history = RuntimeHistory()
    history.record(make_job("train-1", queue="red"), ran_s)
    assert bool(history.learned().groups) is counts


def test_the_number_of_groups_is_bounded() -> None:
    """Each of these jobs is of a queue of its own, and of five groups."""
    history = RuntimeHistory()
    for number in range(819):
        history.record(make_job("a", queue=f"q{number}"), 10.0)
    assert len(history.learned().groups) == 4_095
    history.record(make_job("a", queue="q819"), 10.0)
    assert len(history.learned().groups) == 4_096
