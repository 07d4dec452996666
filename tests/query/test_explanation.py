"""Why a job waits, as a value: the whole answer compared."""

from __future__ import annotations

from dataclasses import replace

from cotenant.core.model.objects import Job
from cotenant.core.model.plan import Plan
from cotenant.query.explanation import NAMED_AHEAD, Explanation, Standing, explain
from cotenant.query.redaction import JobMention
from cotenant.query.situation import Situation
from tests.support.clusters import UNPROTECTED, ToyCluster, make_job, make_node, make_queue

TEAMS = (
    make_queue("all", guaranteed=4),
    *(make_queue(name, parent="all", guaranteed=0) for name in ("red", "blue", "green")),
)


def situation(*jobs: Job) -> Situation:
    """The state after the cycle in which the other jobs came, when the first of them ran already."""
    toy = ToyCluster([make_node("n1", gpus=4)], TEAMS, jobs[:1])
    toy.cycle()
    for job in jobs[1:]:
        toy.observe(job)
    planned = toy.snapshot()
    return Situation(planned, toy.cycle(), UNPROTECTED)


def sees_red(namespace: str) -> bool:
    return namespace == "red"


RUNS = make_job("runs", queue="green", gpus=4, at=1.0)


def test_a_waiting_job_has_its_reason_and_its_place_in_line_and_the_jobs_before_it() -> None:
    about = explain(
        situation(
            RUNS,
            make_job("older", gpus=2, at=2.0),
            make_job("between", queue="blue", gpus=3, at=3.0),
            make_job("asked", gpus=4, at=4.0),
        ),
        "red/asked",
    )
    assert about is not None
    assert about.as_seen(sees_red) == Explanation(
        job="red/asked",
        standing=Standing.WAITING,
        queue="red",
        asks="4 GPUs",
        priority=0,
        submitted_at=4.0,
        reason=about.reason,
        message=about.message,
        evidence=about.evidence,
        starts_by_basis=about.starts_by_basis,
        position=3,
        ahead=(
            JobMention(job="", namespace="", queue="", asks="3 GPUs", why="it is older"),
            JobMention(job="red/older", namespace="red", queue="red", asks="2 GPUs", why="it is older"),
        ),
        would_start_if=about.would_start_if,
        change=about.change,
    )
    assert about.namespaces == {"red", "blue"}


def test_a_job_that_holds_gpus_does_not_wait_and_nobody_is_before_it() -> None:
    about = explain(situation(replace(RUNS, user="ann")), "green/runs")
    assert about == Explanation(
        job="green/runs", standing=Standing.ADMITTED, queue="green", asks="4 GPUs", priority=0, submitted_at=1.0,
        user="ann", nodes=("n1",),
    )  # fmt: skip


def test_a_job_whose_queue_was_deleted_while_it_holds_gpus_reads_what_that_means() -> None:
    before = situation(RUNS)
    gone = replace(before.planned, queues=tuple(queue for queue in TEAMS if queue.name != "green"), accounting=None)
    kept = replace(gone, queues=(*gone.queues, replace(TEAMS[-1], deleted=True)))
    for planned in (gone, kept):
        about = explain(Situation(planned, before.plan, UNPROTECTED), "green/runs")
        assert about is not None
        assert (about.standing, about.reason) == (Standing.ADMITTED, "QueueMissing")
        assert about.message.startswith("Queue green was deleted. What the job holds counts as borrowed")


def test_a_job_that_can_never_start_has_no_place_in_line() -> None:
    about = explain(situation(RUNS, make_job("older", at=2.0), make_job("huge", gpus=9, at=3.0)), "red/huge")
    assert about is not None
    assert (about.reason, about.needs_change, about.position, about.ahead) == ("ExceedsCluster", True, None, ())


def test_a_missing_job_has_no_explanation() -> None:
    assert explain(situation(RUNS), "red/nobody") is None


def test_a_job_without_a_verdict_is_to_be_asked_about_again() -> None:
    now = situation(RUNS, make_job("asked", at=2.0))
    about = explain(replace(now, plan=Plan()), "red/asked")
    assert about is not None
    assert (about.reason, about.message) == ("", "It arrived after the last decision; ask again in a moment.")


def test_jobs_that_leave_for_it_are_named() -> None:
    guaranteed = (make_queue("red", guaranteed=4), make_queue("green", guaranteed=0))
    toy = ToyCluster([make_node("n1", gpus=4)], guaranteed, [RUNS])
    toy.cycle()
    toy.now += 1_000.0
    toy.observe(make_job("owner", gpus=4, at=2.0))
    planned = toy.snapshot()
    about = explain(Situation(planned, toy.cycle(), UNPROTECTED), "red/owner")
    assert about is not None
    leaving = JobMention(
        job="green/runs", namespace="green", queue="green", asks="4 GPUs of H100", why="it was asked to leave"
    )
    assert (about.reason, about.leaving) == ("WaitingForEviction", (leaving,))


def test_the_nearest_jobs_of_a_long_line_are_described_and_the_others_counted() -> None:
    jobs = [make_job(f"j{number:03}", gpus=4, at=float(number)) for number in range(2, 30)]
    about = explain(situation(RUNS, *jobs), jobs[-1].key)
    assert about is not None
    assert (about.position, len(about.ahead), about.ahead_more) == (28, NAMED_AHEAD, 27 - NAMED_AHEAD)
    assert about.ahead[0].job == jobs[-2].key


def test_the_names_of_others_are_taken_out_of_its_sentences_too() -> None:
    now = situation(RUNS, make_job("asked", gpus=4, at=2.0))
    verdict = replace(
        now.verdicts["red/asked"],
        message="GPUs are reserved for green/runs",
        starts_by_basis="The end of green/runs is not known.",
        evidence=(("of", "green/runs"),),
    )
    about = explain(replace(now, plan=replace(now.plan, verdicts={"red/asked": verdict})), "red/asked")
    assert about is not None
    seen = about.as_seen(sees_red)
    assert seen.message == "GPUs are reserved for a job of another tenant"
    assert seen.starts_by_basis == "The end of a job of another tenant is not known."
    assert seen.evidence == (("of", "a job of another tenant"),)
