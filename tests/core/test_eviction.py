"""Who leaves for whom: whole stories, played until nothing happens any more, and the actions compared."""

from __future__ import annotations

from dataclasses import replace

from cotenant.core import Policy, schedule
from cotenant.core.model.objects import Job
from cotenant.core.model.plan import Admit, Evict, EvictionKind, Reason, Resize
from cotenant.testing import ToyCluster, make_job, make_node, make_placement, make_queue, make_snapshot


def steps(toy: ToyCluster) -> list[tuple[str, str]]:
    words = {Admit: "admit", Resize: "resize"}
    return [
        (action.kind.value if isinstance(action, Evict) else words[type(action)], action.job) for action in toy.history
    ]


def running(name: str, column: int | list[list[int]], *, at: float = 0.0, node: str = "n1", **changes: object) -> Job:
    workers = [[column]] if isinstance(column, int) else column
    job = make_job(name, placement=make_placement((node, workers)), **changes)  # type: ignore[arg-type]
    return replace(job, admitted_at=at, workers_min=changes.get("workers_min", job.workers_min))  # type: ignore[arg-type]


def test_higher_priority_preempts_inside_its_queue_and_the_victim_comes_back_when_it_ends() -> None:
    toy = ToyCluster(
        [make_node("n1", gpus=1)], [make_queue("red", guaranteed=1)], [make_job("low", at=1), make_job("other", at=2)]
    )
    toy.settle()
    toy.observe(make_job("high", at=3, priority=9))
    toy.settle()
    toy.end("red/high")
    toy.settle()

    assert steps(toy) == [
        ("admit", "red/low"),
        ("Preempted", "red/low"),
        ("admit", "red/high"),
        ("admit", "red/low"),
    ]


def test_equal_priority_preempts_nobody() -> None:
    jobs = [running("old", 0), make_job("new", at=5)]

    plan = schedule(make_snapshot(nodes=[make_node("n1", gpus=1)], queues=[make_queue("red", guaranteed=1)], jobs=jobs))

    assert plan.actions == ()


def test_an_owner_takes_back_what_was_lent_and_no_more() -> None:
    queues = [make_queue("red", guaranteed=2), make_queue("blue", guaranteed=2)]
    borrowers = [make_job(f"b{index}", queue="red", at=index) for index in range(4)]
    toy = ToyCluster([make_node("n1", gpus=4)], queues, borrowers)
    toy.settle()
    for index in range(3):
        toy.observe(make_job(f"own{index}", queue="blue", at=10 + index))
    plan = toy.settle()

    reclaimed = [action.job for action in toy.history if isinstance(action, Evict)]
    assert len(reclaimed) == 2
    assert sorted(key for key, job in toy.jobs.items() if job.queue == "blue" and job.placement) == [
        "blue/own0",
        "blue/own1",
    ]
    assert plan.verdicts["blue/own2"].reason == Reason.WAITING_FOR_GPUS


def test_the_least_lost_work_leaves_first() -> None:
    nodes, queues = [make_node("n1", gpus=2)], [make_queue("red", guaranteed=0), make_queue("blue", guaranteed=2)]
    jobs = [
        replace(running("saved-long-ago", 0, at=1), last_checkpoint_at=10.0),
        replace(running("saved-just-now", 1, at=0), last_checkpoint_at=990.0),
        make_job("owner", queue="blue", at=50),
    ]

    plan = schedule(make_snapshot(nodes=nodes, queues=queues, jobs=jobs))

    assert [(action.job, action.kind) for action in plan.actions if isinstance(action, Evict)] == [
        ("red/saved-just-now", EvictionKind.RECLAIMED)
    ]
    assert plan.actions[0].message == (  # type: ignore[union-attr]
        "Queue red had borrowed these 1 GPU; queue blue needs them back for blue/owner."
    )


def test_the_cheapest_node_is_cleared_for_a_gang_that_needs_one() -> None:
    nodes = [make_node("n1"), make_node("n2")]
    queues = [make_queue("red", guaranteed=0), make_queue("blue", guaranteed=4)]
    dear = replace(running("dear", 0, node="n1", at=0.0), last_checkpoint_at=0.0)
    cheap = [
        replace(running(f"cheap{index}", index, node="n2", at=0.0), last_checkpoint_at=900.0) for index in range(2)
    ]
    fresh = replace(running("fresh", 1, node="n1", at=0.0), last_checkpoint_at=999.0)

    plan = schedule(
        make_snapshot(nodes=nodes, queues=queues, jobs=[dear, fresh, *cheap, make_job("pair", queue="blue", gpus=2)])
    )

    assert [action.job for action in plan.actions] == ["red/cheap0", "red/cheap1"]


def test_nobody_is_evicted_when_that_would_not_be_enough() -> None:
    nodes = [make_node("n1", gpus=2)]
    queues = [make_queue("red", guaranteed=0), make_queue("blue", guaranteed=2)]
    jobs = [running("a", 0), running("fixed", 1, preemptible=False), make_job("pair", queue="blue", gpus=2)]

    plan = schedule(make_snapshot(nodes=nodes, queues=queues, jobs=jobs))

    assert plan.actions == ()
    assert plan.verdicts["blue/pair"].reason == Reason.WAITING_FOR_GPUS


def test_a_job_is_left_in_peace_for_its_protected_time() -> None:
    nodes, jobs = [make_node("n1", gpus=1)], [running("young", 0, at=950.0), make_job("vip", priority=1)]
    queues = [replace(make_queue("red", guaranteed=1), protected_runtime_s=100)]

    assert schedule(make_snapshot(nodes=nodes, queues=queues, jobs=jobs)).actions == ()
    assert schedule(make_snapshot(nodes=nodes, queues=queues, jobs=jobs, now=1_050.0)).actions != ()
    assert (
        schedule(
            make_snapshot(nodes=nodes, queues=queues, jobs=jobs, now=1_050.0), Policy(protected_runtime_s=500)
        ).actions
        == ()
    )


def test_what_cannot_be_taken_back_is_never_lent() -> None:
    queues = [make_queue("red", guaranteed=1), make_queue("blue", guaranteed=1)]
    jobs = [make_job("a", preemptible=False, at=1), make_job("b", preemptible=False, at=2)]

    plan = schedule(make_snapshot(nodes=[make_node("n1")], queues=queues, jobs=jobs))

    assert [action.job for action in plan.actions] == ["red/a"]


def test_a_place_that_was_made_is_not_given_to_somebody_else() -> None:
    """The victim leaves late; an older job of a queue inside its guarantee arrives meanwhile and still has to wait."""
    queues = [make_queue("red", guaranteed=0), make_queue("blue", guaranteed=1), make_queue("green", guaranteed=1)]
    held = [running("guest", 0), running("fixed", 1, preemptible=False)]
    toy = ToyCluster([make_node("n1", gpus=2)], queues, held)
    toy.observe(make_job("owner", queue="blue", at=9))
    toy.cycle()
    toy.observe(make_job("late", queue="green", at=2))
    plan = toy.cycle()
    toy.finish_evictions()
    toy.settle()

    assert plan.verdicts["blue/owner"].reason == Reason.WAITING_FOR_EVICTION
    assert toy.jobs["blue/owner"].placement is not None
    assert toy.jobs["green/late"].placement is None


def test_a_lost_node_sends_the_whole_gang_back() -> None:
    nodes = [make_node("n1", gpus=1), make_node("n2", gpus=1), make_node("n3", gpus=2)]
    gang = make_job("gang", workers=2, placement=make_placement(("n1", [[0]]), ("gone", [[0]])))
    toy = ToyCluster(nodes, [make_queue("red", guaranteed=2)], [replace(gang, admitted_at=0.0)])
    toy.settle()

    assert steps(toy) == [("NodeLost", "red/gang"), ("admit", "red/gang")]
    assert toy.jobs["red/gang"].placement == make_placement(("n3", [[0], [1]]))


def test_an_elastic_job_grows_into_idle_room_and_shrinks_before_anyone_is_evicted() -> None:
    toy = ToyCluster(
        [make_node("n1", gpus=4)],
        [make_queue("red", guaranteed=4), make_queue("blue", guaranteed=0)],
        [make_job("elastic", workers=(1, 4), at=1)],
    )
    toy.settle()
    grown = toy.jobs["red/elastic"].placement
    toy.observe(make_job("new", at=2, gpus=2))
    toy.settle()
    shrunk = toy.jobs["red/elastic"].placement

    assert grown is not None
    assert grown.workers == 4
    assert shrunk is not None
    assert shrunk.workers == 2
    assert [kind for kind, _ in steps(toy)] == ["admit", "resize", "admit"]


def test_small_jobs_move_aside_where_their_queue_allows_it() -> None:
    nodes = [make_node("n1"), make_node("n2")]
    queues = [replace(make_queue("red", guaranteed=4), consolidation=True)]
    jobs = [running("a", 0, node="n1", at=1.0), running("b", 0, node="n2", at=2.0)]
    toy = ToyCluster(nodes, queues, [*jobs, make_job("pair", gpus=2, at=3)])
    toy.now = 100.0
    toy.settle()

    assert [kind for kind, _ in steps(toy)] == ["Moved", "admit", "admit"]
    assert all(job.placement for job in toy.jobs.values())

    still = ToyCluster(nodes, [make_queue("red", guaranteed=4)], [*jobs, make_job("pair", gpus=2, at=3)])
    still.settle()
    assert steps(still) == []


def test_a_borrower_does_not_stay_on_what_another_queue_keeps_for_itself() -> None:
    """With blue's GPU taken, two of four are free, but they are the owner's, who lends none. Red has a claim to another
    one, of a class that blue does not even hold: what counts is how many are left."""
    nodes = [make_node("a", gpus=1, gpu_class="A100"), make_node("h", gpus=3, gpu_class="H100")]
    queues = [make_queue("owner", guaranteed=2, lendable=0), make_queue("red", guaranteed=2)]
    borrower = make_job("b", queue="blue", classes=("A100",))
    toy = ToyCluster(nodes, [*queues, make_queue("blue", guaranteed=0)], [borrower])
    toy.cycle()
    toy.observe(make_job("one", queue="red", classes=("H100",), at=1.0))
    toy.observe(make_job("two", queue="red", classes=("H100",), at=2.0))

    verdicts = toy.settle().verdicts

    assert [action.job for action in toy.history if isinstance(action, Evict)] == ["blue/b"]
    assert sorted(key for key, job in toy.jobs.items() if job.placement) == ["red/one", "red/two"]
    assert {key: verdict.reason for key, verdict in verdicts.items()} == {"blue/b": Reason.WAITING_FOR_QUOTA}
