"""What a change would do: said before it is made, and true when it is."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from cotenant.core.model.objects import Job
from cotenant.core.model.plan import Admit
from cotenant.core.scheduling.scheduler import schedule
from cotenant.query.redaction import JobMention
from cotenant.query.situation import Situation
from cotenant.query.what_if import ProposalOutcome, what_if, with_job
from tests.support.clusters import UNPROTECTED, ToyCluster, make_job, make_node, make_queue

TEAMS = [make_queue("red", guaranteed=2), make_queue("blue", guaranteed=2)]


def always() -> bool:
    return True


def never() -> bool:
    return False


def decided(toy: ToyCluster) -> Situation:
    planned = replace(toy.snapshot(), now=toy.now + 1.0)
    return Situation(planned, toy.cycle(), toy.policy)


def cluster(*jobs: Job) -> ToyCluster:
    toy = ToyCluster([make_node("n1"), make_node("n2")], TEAMS)
    for job in jobs:
        toy.observe(job)
        toy.cycle()
    return toy


def test_a_job_with_room_starts_and_its_nodes_are_named() -> None:
    found = what_if(decided(cluster(make_job("runs", gpus=2))), make_job("new", queue="blue", workers=2), never)
    assert (found.outcome, sum(workers for _, workers in found.nodes), found.victims) == (ProposalOutcome.STARTS, 2, ())


def test_jobs_that_would_have_to_leave_are_named() -> None:
    situation = decided(cluster(make_job("lent", queue="blue", gpus=2), make_job("more", queue="blue", gpus=2)))
    found = what_if(situation, make_job("mine", gpus=2, at=9.0), never)
    assert (found.outcome, found.reason) == (ProposalOutcome.AFTER_EVICTIONS, "WaitingForEviction")
    (victim,) = found.victims
    assert (victim.namespace, victim.asks, victim.why) == (
        "blue", "2 GPUs of H100", "it runs on GPUs that its queue has borrowed"
    )  # fmt: skip
    assert found.as_seen({"red"}.__contains__).victims == (replace(victim, job="", namespace="", queue=""),)


def test_jobs_that_it_delays_are_named() -> None:
    toy = cluster(make_job("runs", gpus=2))
    situation = decided(toy)
    toy_job = make_job("next", queue="blue", gpus=2, at=5.0)
    situation = Situation(with_job(situation.snapshot, toy_job), replace(situation.plan, actions=()), toy.policy)
    urgent = make_job("urgent", queue="blue", gpus=2, at=6.0, priority=9)
    found = what_if(situation, urgent, never)
    delayed = JobMention(job="blue/next", namespace="blue", queue="blue", asks="2 GPUs", why="it would start now")
    assert (found.outcome, found.delayed) == (ProposalOutcome.STARTS, (delayed,))


def test_a_waiting_job_has_its_reason_and_what_would_start_it() -> None:
    situation = decided(cluster(make_job("runs", gpus=2), make_job("lent", queue="blue")))
    found = what_if(situation, make_job("big", queue="blue", workers=2, gpus=2), never)
    assert (found.outcome, bool(found.message), found.start_at) == (ProposalOutcome.WAITS, True, None)


def test_a_job_that_waits_for_an_ending_has_an_estimate() -> None:
    situation = decided(cluster(make_job("runs", gpus=2, workers=2, expected_runtime_s=600)))
    found = what_if(situation, make_job("after", gpus=2, workers=2, at=3.0), always)
    assert found.outcome is ProposalOutcome.WAITS
    assert found.start_at is not None
    assert found.start_at > situation.snapshot.now


def test_the_changed_job_stands_in_place_of_the_one_that_waits() -> None:
    toy = cluster(make_job("runs", gpus=2), make_job("asked", workers=4, at=2.0))
    situation = decided(toy)
    smaller = replace(situation.jobs["red/asked"], workers_min=2, workers_max=2)
    assert what_if(situation, situation.jobs["red/asked"], never).outcome is ProposalOutcome.WAITS
    assert what_if(situation, smaller, never).outcome is ProposalOutcome.STARTS


jobs = st.builds(
    lambda number, queue, gpus, workers, at, priority: make_job(
        f"j{number}", queue=queue, gpus=gpus, workers=workers, at=float(at), priority=priority
    ),
    st.integers(0, 9),
    st.sampled_from(["red", "blue"]),
    st.integers(1, 2),
    st.integers(1, 3),
    st.integers(0, 20),
    st.integers(0, 2),
)


NOMINATED = [
    make_job("j0", queue="red", gpus=2, workers=2),
    make_job("j0", queue="blue", workers=3),
    make_job("j7", queue="red", workers=3),
    make_job("j3", queue="red", workers=2),
]
"""After three cycles red/j3 is nominated for two GPUs."""


@settings(max_examples=60, deadline=None)
@example(NOMINATED, make_job("j3", queue="red"), 3)
@given(st.lists(jobs, max_size=7), jobs, st.integers(0, 3))
def test_the_answer_about_a_changed_job_equals_what_the_next_cycle_does(
    before: list[Job], proposal: Job, cycles: int
) -> None:
    """They are equal if nothing else happens: the same core decides on the state with the change."""
    toy = ToyCluster([make_node("n1"), make_node("n2")], TEAMS, {job.key: job for job in before}.values())
    for _ in range(cycles):
        toy.cycle()
    situation = decided(toy)
    known = situation.jobs.get(proposal.key)
    if known is not None and known.placement is not None:
        return
    said = what_if(situation, proposal, never)
    toy.observe(proposal)
    applied = toy.state.bare_snapshot(toy.now)
    assert with_job(situation.snapshot, proposal).demand_history == applied.demand_history
    plan = schedule(applied, UNPROTECTED)
    started = {one.job for one in plan.actions if isinstance(one, Admit)}
    assert (said.outcome is ProposalOutcome.STARTS) == (proposal.key in started)
    assert (said.outcome is ProposalOutcome.AFTER_EVICTIONS) == (proposal.key in plan.nominations)
