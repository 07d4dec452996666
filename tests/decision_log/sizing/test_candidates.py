"""Which class and how many workers suit a job: measured where measured, a range where guessed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.decision_log.measured_use import MeasuredUse
from cotenant.decision_log.runs import RunRecord
from cotenant.decision_log.showback.prices import parse_prices
from cotenant.decision_log.sizing.candidates import (
    NOTHING,
    Basis,
    Candidate,
    ClassFacts,
    Sizing,
    at_workers,
    part_of,
    scales,
    sizing,
)
from cotenant.decision_log.sizing.past_runs import Measurement, RunShape

RUN = RunRecord(
    namespace="red", name="train", uid="u", queue="q", outcome="Succeeded", workers=2, gpu="1", gpu_class="A100",
    run_seconds=1_000, attempts=1,
    use=MeasuredUse(samples=9, busy_samples=9, busy_percent_sum=900, memory_peak_mib=30_000, held_mib=80_000),
)  # fmt: skip
A100 = ClassFacts(gpu_class="A100", memory_mib=81_920, gpus=8, on_one_node=8)
H100 = ClassFacts(gpu_class="H100", memory_mib=81_920, gpus=2, on_one_node=2)
T4 = ClassFacts(gpu_class="T4", memory_mib=15_360, gpus=64, on_one_node=4)
OWN = ClassFacts(gpu_class="Homemade", memory_mib=81_920, gpus=8, on_one_node=8)


def measured(*of_workers: tuple[int, int]) -> dict[int, Measurement]:
    """(workers, seconds) …"""
    return {n: Measurement(shape=RunShape("A100", n, "1"), seconds=seconds, runs=1) for n, seconds in of_workers}


def shown(found: Sizing) -> list[tuple[str, int, tuple[int, int], str]]:
    return [(one.shape.gpu_class, one.shape.workers, one.seconds, one.basis.value) for one in found.candidates]


@pytest.mark.parametrize(
    ("known", "workers", "answer"),
    [
        pytest.param(((2, 1_000),), 2, (1_000, 1_000, Basis.MEASURED), id="measured"),
        pytest.param(((2, 1_000),), 4, (500, 1_000, Basis.GUESSED), id="more: between all of the gain and half of it"),
        pytest.param(((2, 1_000),), 8, (250, 500, Basis.GUESSED), id="many more"),
        pytest.param(((2, 1_000),), 1, (1_000, 2_000, Basis.GUESSED), id="fewer"),
        pytest.param(((1, 1_100), (2, 600)), 4, (350, 350, Basis.FITTED), id="100 s and 1,000 s that divide"),
        pytest.param(((1, 1_000), (2, 1_000)), 8, (1_000, 1_000, Basis.FITTED), id="nothing divides"),
        pytest.param(((1, 1_000), (2, 1_300)), 8, (1_300, 1_300, Basis.FITTED), id="workers are in each other's way"),
        pytest.param(((1, 1_000), (2, 400)), 4, (200, 200, Basis.FITTED), id="better than all divided"),
        pytest.param(((1, 9_000), (2, 600), (4, 350)), 8, (225, 225, Basis.FITTED), id="by the two nearest"),
    ],
)
def test_seconds_with_other_numbers_of_workers(
    known: tuple[tuple[int, int], ...], workers: int, answer: tuple[int, int, Basis]
) -> None:
    assert at_workers(measured(*known), workers) == answer


@given(
    known=st.dictionaries(st.integers(1, 64), st.integers(60, 10**6), min_size=1, max_size=4),
    workers=st.integers(1, 128),
)
def test_a_range_is_never_turned_round_and_no_time_is_none(known: dict[int, int], workers: int) -> None:
    low, high, _ = at_workers(measured(*known.items()), workers)
    assert 0 <= low <= high


@pytest.mark.parametrize(
    ("busy", "gpu_class", "factors"),
    [
        (100, "A100", (1.0, 1.0)),
        (100, "H100", (312 / 989, 2039 / 3350)),
        (50, "H100", (0.5 + 0.5 * 312 / 989, 0.5 + 0.5 * 2039 / 3350)),
        (0, "H100", (1.0, 1.0)),
        (None, "T4", (312 / 65, 2039 / 300)),
        (100, "Homemade", None),
    ],
)
def test_between_classes_the_busy_part_is_scaled(
    busy: int | None, gpu_class: str, factors: tuple[float, float] | None
) -> None:
    base = Measurement(shape=RunShape("A100", 2, "1"), seconds=1_000, runs=1, busy_percent=busy)
    found = scales(base, replace(A100, gpu_class=gpu_class))
    assert found == (None if factors is None else pytest.approx(factors))


@pytest.mark.parametrize(
    ("gpu", "memory_mib", "part"),
    [("2", 81_920, 2_000), ("0.4", 81_920, 400), ("16Gi", 65_536, 250), ("16Gi", 15_360, None), ("", 1, None)],
)
def test_the_part_of_a_gpu_that_each_worker_holds(gpu: str, memory_mib: int, part: int | None) -> None:
    assert part_of(gpu, memory_mib) == part


def test_workers_with_a_share_each_are_no_more_than_the_gpus() -> None:
    share = replace(RUN, gpu="0.4", gpu_class="H100")
    assert [one.shape.workers for one in sizing([share], [H100]).candidates] == [2, 1]


def test_one_fast_against_several_slow() -> None:
    found = sizing([RUN, replace(RUN, uid="v")], [A100, H100, T4, OWN])
    assert shown(found) == [
        ("H100", 2, (315, 609), "Guessed"),
        ("A100", 2, (1_000, 1_000), "Measured"),
        ("A100", 4, (500, 1_000), "Guessed"),
        ("H100", 1, (315, 1_217), "Guessed"),
        ("A100", 1, (1_000, 2_000), "Guessed"),
    ]
    assert found.quickest == found.candidates[0]
    assert found.cheapest == found.candidates[3], "one fast GPU holds the fewest GPU-hours even at the worse end"
    assert found.notes == (
        "Nothing is guessed of Homemade: there are no figures of it, or of A100.",
        "T4 has too little memory for it.",
    )
    assert (found.runs, found.left_out, found.by_money) == (2, 0, False)


def test_with_prices_the_cheapest_costs_least() -> None:
    prices = parse_prices(
        {"currency": "EUR", "classes": [{"gpuClass": "H100", "perGPUHour": "9"}, {"gpuClass": "*", "perGPUHour": "1"}]}
    )
    found = sizing([RUN], [A100, H100], prices)
    assert found.by_money
    assert found.cheapest is not None
    assert (found.cheapest.shape, found.cheapest.cost) == (RunShape("A100", 2, "1"), (555_555, 555_555))
    assert found.quickest is not None
    assert found.quickest.shape == RunShape("H100", 2, "1")


def test_what_was_measured_on_a_class_is_not_guessed_there() -> None:
    slow = replace(RUN, gpu_class="H100", workers=1, run_seconds=3_000)
    found = sizing([RUN, RUN, slow], [A100, H100])
    assert [one for one in shown(found) if one[0] == "H100"] == [
        ("H100", 1, (3_000, 3_000), "Measured"),
        ("H100", 2, (1_500, 3_000), "Guessed"),
    ]


def test_waiting_gpus_gain_nothing_from_a_faster_class() -> None:
    waits = replace(RUN, use=replace(RUN.use, busy_percent_sum=90))
    found = sizing([waits], [A100, H100])
    assert found.notes == ("A kernel ran in 10 % of the time on A100: a faster class shortens no more than that part.",)
    assert found.candidates[0] == Candidate(
        shape=RunShape("H100", 2, "1"), seconds=(932, 961), milli=2_000, basis=Basis.GUESSED
    )


def test_without_a_run_that_says_how_long_it_takes_nothing_is_said() -> None:
    assert sizing([], [A100]) == Sizing(notes=(NOTHING,))
    assert sizing([replace(RUN, outcome="Failed")], [A100]) == Sizing(left_out=1, notes=(NOTHING,))
