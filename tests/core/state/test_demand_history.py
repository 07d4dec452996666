"""The demand that placement learns from: jobs as they arrived, and those that left with less and less weight."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.core.placement.shapes import Shape
from cotenant.core.state.demand_history import DemandHistory
from cotenant.core.state.facts import JobObserved
from tests.support.clusters import ToyCluster, make_job, make_node, make_queue

ONE, TWO = Shape(count=1), Shape(count=2)


def weights(history: DemandHistory) -> list[float]:
    return [weight for _, weight in history.demands()]


def demands_of(toy: ToyCluster) -> dict[Shape, float]:
    return dict(toy.snapshot().demand_history)


def test_a_job_counts_with_its_workers_while_it_waits_and_while_it_runs() -> None:
    jobs = [make_job("pair", workers=2), make_job("wide", gpus=2)]
    toy = ToyCluster([make_node("n1", gpus=2)], [make_queue("red", guaranteed=4)], jobs)

    toy.cycle()

    assert [job.placement is not None for job in toy.jobs.values()] == [True, False]
    assert demands_of(toy) == {ONE: 2.0, TWO: 1.0}


def test_an_edit_of_a_waiting_job_changes_nothing() -> None:
    job = make_job("edited", gpus=2)
    toy = ToyCluster([make_node("n1", gpus=1)], [make_queue("red")], [job])

    toy.observe(make_job("edited", gpus=1, workers=3))

    assert demands_of(toy) == {TWO: 1.0}


def test_a_job_that_was_deleted_and_made_again_counts_as_it_is_now() -> None:
    """The old one counts as a job that left."""
    toy = ToyCluster([make_node("n1", gpus=1)], [make_queue("red")], [make_job("same", gpus=2)])

    toy.state.observe(JobObserved(replace(make_job("same", gpus=1), uid="another")))

    assert demands_of(toy) == {ONE: 1.0, TWO: 1.0}


def test_a_job_that_left_counts_as_it_arrived() -> None:
    jobs = [make_job("gone", gpus=2), make_job("stays", gpus=2)]
    toy = ToyCluster([make_node("n1", gpus=1)], [make_queue("red")], jobs)
    toy.observe(make_job("gone", gpus=1))
    toy.snapshot()

    toy.end("red/gone")
    toy.now += 86_400.0

    assert demands_of(toy) == {TWO: 1.5}


def test_of_jobs_that_left_the_shape_with_the_least_weight_is_forgotten_first() -> None:
    """Room for 256: the one that ran once goes, those that ran on two workers stay."""
    history = DemandHistory(100.0)
    for cpu in range(257):
        history.job_arrived(make_job("past", cpu_milli=cpu, workers=1 if cpu == 100 else 2))
        history.job_left("red/past")

    assert {shape.cpu_milli for shape, _ in history.demands()} == set(range(257)) - {100}


@pytest.mark.parametrize(("after_s", "left"), [(600.0, [1 / 64]), (700.0, [])])
def test_a_shape_that_does_not_come_again_is_forgotten_after_seven_half_lives(
    after_s: float, left: list[float]
) -> None:
    history = DemandHistory(100.0)
    history.advance(0.0)
    history.job_arrived(make_job("past"))
    history.job_left("red/past")
    history.advance(after_s)

    assert weights(history) == left


def test_weights_of_jobs_that_left_change_only_in_steps_and_later_ones_weigh_more() -> None:
    """A step is 100 / 128 s."""
    history = DemandHistory(100.0)
    for job in (make_job("first"), make_job("second", gpus=2)):
        history.job_arrived(job)
    history.advance(1_000.0)
    history.advance(1_000.5)
    history.job_left("red/first")
    assert weights(history) == [1.0, 1.0]

    history.advance(1_001.0)
    history.job_left("red/second")
    assert weights(history) == [1.0, 2 ** (0.5 / 100)]

    history.advance(1_000.5 + 100 / 128)
    assert weights(history) == pytest.approx([2 ** (-1 / 128), 2 ** (-1 / 128 + 0.5 / 100)], rel=1e-12)
    assert weights(history)[0] < 1.0


def test_a_new_leader_goes_on_from_jobs_that_ended_beside_those_that_are_here() -> None:
    """Half-lives of a day. What another leader remembered is replaced."""
    history = DemandHistory(86_400.0)
    history.job_arrived(make_job("here"))
    history.job_arrived(make_job("before", gpus=3))
    history.job_left("red/before")
    ended = [(make_job("pair", gpus=2), 86_400.0), (make_job("one", workers=3), 0.0), (make_job("more"), 86_400.0)]

    history.restore(ended, 86_400.0)

    assert history.demands() == ((ONE, 3.5), (TWO, 1.0))


def test_a_job_of_which_no_shape_can_be_made_leaves_what_was_known_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its quarantine ends with its deletion, which has to find the earlier one."""
    history = DemandHistory(100.0)
    history.job_arrived(make_job("one"))
    monkeypatch.delattr("cotenant.core.state.demand_history.worker_shape")
    with pytest.raises(NameError):
        history.job_arrived(make_job("one", gpus=2))
    assert history.demands() == ((ONE, 1.0),)
    history.job_left("red/one")
