"""Lines of the queue tree: what they allow, what they hold back, how they scale, and who is next by them."""

from __future__ import annotations

from dataclasses import replace

from cotenant.core import schedule
from cotenant.core.gpus.inventory import Inventory
from cotenant.core.model.objects import Quota, Topology, TopologyMode
from cotenant.core.model.plan import Admit, Evict, Reason
from cotenant.core.quota.tree import QueueTree
from cotenant.core.state.facts import QueueObserved
from cotenant.testing import ToyCluster, make_job, make_node, make_placement, make_queue, make_snapshot


def admitted(plan: object) -> list[str]:
    return [action.job for action in plan.actions if isinstance(action, Admit)]  # type: ignore[attr-defined]


def remembered_of(toy: ToyCluster) -> dict[str, float]:
    return {past.queue: past.milli_seconds for past in toy.snapshot().usage_history}


def test_every_line_that_matches_must_allow_it() -> None:
    lines = (
        Quota(limit=4_000),
        Quota(gpu_class="H100", limit=2_000),
        Quota(zone="east", limit=1_000),
    )
    nodes = [make_node("n1", gpus=4, zone="east"), make_node("n2", gpus=4, zone="west")]
    jobs = [make_job(f"j{index}", at=index, zones=("east",) if index < 2 else ()) for index in range(5)]

    plan = schedule(make_snapshot(nodes=nodes, queues=[replace(make_queue("red"), quotas=lines)], jobs=jobs))

    assert admitted(plan) == ["red/j0", "red/j2"]
    assert dict(plan.verdicts["red/j1"].evidence)["scope"] == "queue red, class any, zone east"
    assert dict(plan.verdicts["red/j4"].evidence)["scope"] == "queue red, class H100, zone any"


def test_a_gang_is_spread_over_zones_as_their_lines_allow() -> None:
    lines = (Quota(zone="east", limit=1_000), Quota(zone="west", limit=2_000))
    nodes = [make_node("n1", gpus=4, zone="east"), make_node("n2", gpus=4, zone="west")]
    queue = replace(make_queue("red"), quotas=lines)

    plan = schedule(make_snapshot(nodes=nodes, queues=[queue], jobs=[make_job("gang", workers=3)]))
    too_many = schedule(make_snapshot(nodes=nodes, queues=[queue], jobs=[make_job("gang", workers=4)]))

    assert plan.actions == (Admit(job="red/gang", placement=make_placement(("n2", [[0], [1]]), ("n1", [[0]]))),)
    assert too_many.verdicts["red/gang"].reason == Reason.EXCEEDS_LIMIT


def test_a_user_has_a_limit_of_his_own() -> None:
    queue = replace(make_queue("red", guaranteed=4), user_limit=1_500)
    jobs = [
        make_job("a", user="ann", milli=1_000, at=1),
        make_job("b", user="ann", milli=600, at=2),
        make_job("c", user="bob", milli=600, at=3),
    ]

    plan = schedule(make_snapshot(nodes=[make_node("n1")], queues=[queue], jobs=jobs))

    assert admitted(plan) == ["red/a", "red/c"]
    assert plan.verdicts["red/b"].message == (
        "Needs 0.6 GPU, together 0.6 GPU; user ann in queue red: limit 1.5 GPU, used 1 GPU, available 0.5 GPU."
    )


def test_gpu_memory_has_a_limit_too() -> None:
    queue = replace(make_queue("red"), quotas=(Quota(memory_limit_mib=100_000),))
    jobs = [make_job("a", at=1), make_job("b", at=2)]

    plan = schedule(make_snapshot(nodes=[make_node("n1")], queues=[queue], jobs=jobs))

    assert admitted(plan) == ["red/a"]
    assert dict(plan.verdicts["red/b"].evidence)["metric"] == "GPU memory"


def test_what_a_queue_does_not_lend_stays_free_for_it() -> None:
    queues = [make_queue("red", guaranteed=0), make_queue("blue", guaranteed=3, lendable=1)]
    jobs = [make_job(f"r{index}", at=index) for index in range(4)]

    plan = schedule(make_snapshot(nodes=[make_node("n1", gpus=4)], queues=queues, jobs=jobs))

    assert admitted(plan) == ["red/r0", "red/r1"]
    assert plan.verdicts["red/r2"].reason == Reason.WAITING_FOR_QUOTA


def test_guarantees_shrink_alike_when_nodes_are_lost() -> None:
    queues = [make_queue("red", guaranteed=8), make_queue("blue", guaranteed=8)]
    tree = QueueTree.of(queues, Inventory.of([make_node("n1", gpus=12), make_node("n2", gpus=4, ready=False)]))

    assert [line.guaranteed for line in tree.quotas] == [6_000, 6_000]
    assert [line.quota.guaranteed for line in tree.quotas] == [8_000, 8_000]


def test_the_smaller_weighted_share_of_what_is_borrowed_goes_first() -> None:
    queues = [replace(make_queue("heavy", guaranteed=0), weight=3), make_queue("light", guaranteed=0)]
    jobs = [make_job(f"{queue.name[0]}{index}", queue=queue.name, at=index) for queue in queues for index in range(8)]

    plan = schedule(make_snapshot(nodes=[make_node("n1", gpus=8)], queues=queues, jobs=jobs))

    assert len([key for key in admitted(plan) if key.startswith("heavy/")]) == 6


def test_a_rack_is_found_in_whichever_zone_has_one_that_is_large_enough() -> None:
    """East is the tighter zone, but its racks are too small; west's line leaves room for one of its two racks."""
    lines = (Quota(zone="east", limit=4_000), Quota(zone="west", limit=4_000))
    nodes = [
        make_node(f"{zone}-{number}", gpus=gpus, zone=zone, rack=f"r{number % 2}")
        for zone, gpus in (("east", 1), ("west", 2))
        for number in range(4)
    ]
    gang = make_job("gang", workers=4, topology=Topology("rack", TopologyMode.REQUIRED))

    plan = schedule(make_snapshot(nodes=nodes, queues=[replace(make_queue("red"), quotas=lines)], jobs=[gang]))

    (action,) = plan.actions
    assert isinstance(action, Admit)
    assert {part.node for part in action.placement.nodes} in ({"west-0", "west-2"}, {"west-1", "west-3"})


def test_room_is_made_in_a_small_rack_where_the_large_ones_are_in_a_zone_that_is_used_up() -> None:
    lines = (Quota(zone="east", limit=2_000), Quota(zone="west", limit=0))
    nodes = [make_node(f"w{number}", gpus=4, zone="west", rack=f"r{number}") for number in range(9)]
    nodes.append(make_node("e", gpus=2, zone="east", rack="r"))
    low = make_job("low", gpus=2, placement=make_placement(("e", [[0, 1]])), admitted_at=0.0)
    high = make_job("high", workers=2, priority=5, topology=Topology("rack", TopologyMode.REQUIRED))

    plan = schedule(make_snapshot(nodes=nodes, queues=[replace(make_queue("red"), quotas=lines)], jobs=[low, high]))

    assert [action.job for action in plan.actions if isinstance(action, Evict)] == ["red/low"]


def test_shares_are_compared_level_by_level() -> None:
    """Two teams of one department count together against the other department."""
    queues = [
        make_queue("dept-a", guaranteed=0),
        make_queue("dept-b", guaranteed=0),
        make_queue("a1", guaranteed=0, parent="dept-a"),
        make_queue("a2", guaranteed=0, parent="dept-a"),
        make_queue("b1", guaranteed=0, parent="dept-b"),
    ]
    jobs = [make_job(f"j{index}", queue=name, at=index) for name in ("a1", "a2", "b1") for index in range(8)]

    plan = schedule(make_snapshot(nodes=[make_node("n1", gpus=8)], queues=queues, jobs=jobs))

    counts = {name: len([key for key in admitted(plan) if key.startswith(name)]) for name in ("a1", "a2", "b1")}
    assert counts == {"a1": 2, "a2": 2, "b1": 4}


def test_who_borrowed_long_goes_after_who_did_not_and_the_memory_fades() -> None:
    queues = [make_queue("red", guaranteed=0), make_queue("blue", guaranteed=0)]
    toy = ToyCluster([make_node("n1", gpus=1)], queues, [make_job("long", queue="red", at=1)])
    toy.cycle()
    toy.now += 86_400.0
    toy.cycle()
    toy.end("red/long")
    remembered = remembered_of(toy)["red"]
    toy.observe(make_job("again", queue="red", at=2))
    toy.observe(make_job("first", queue="blue", at=3))
    toy.cycle()

    assert toy.jobs["blue/first"].placement is not None
    assert toy.jobs["red/again"].placement is None
    toy.now += 86_400.0
    faded = remembered_of(toy)["red"]
    assert 0.49 * remembered < faded < 0.51 * remembered


def two_trees_that_borrowed_alike(red_half_life_s: int | None) -> ToyCluster:
    """Red's teams and blue each borrow one GPU for ten hours; four hours later both ask for the only free one."""
    queues = [
        make_queue("red", guaranteed=0, half_life_s=red_half_life_s),
        make_queue("red-team", guaranteed=0, parent="red"),
        make_queue("blue", guaranteed=0),
    ]
    jobs = [make_job("long", queue="red-team"), make_job("long", queue="blue")]
    toy = ToyCluster([make_node("n1", gpus=2)], queues, jobs)
    toy.cycle()
    toy.now += 10 * 3_600.0
    toy.cycle()
    toy.end("red-team/long")
    toy.end("blue/long")
    toy.cycle()
    toy.now += 4 * 3_600.0
    toy.observe(make_job("first", queue="blue", gpus=2, at=1.0))
    toy.observe(make_job("second", queue="red-team", gpus=2, at=2.0))
    toy.cycle()
    return toy


def test_a_tree_that_forgets_sooner_is_ahead_sooner() -> None:
    same = two_trees_that_borrowed_alike(None)
    forgets = two_trees_that_borrowed_alike(3_600)

    assert [key for key, job in same.jobs.items() if job.placement] == ["blue/first"]
    assert [key for key, job in forgets.jobs.items() if job.placement] == ["red-team/second"]
    assert {past.queue: past.half_life_s for past in forgets.snapshot().usage_history} == {
        "blue": 86_400,
        "red": 3_600,
        "red-team": 3_600,
    }


def test_a_new_half_life_changes_the_pace_and_not_what_was_remembered() -> None:
    """The same average of GPUs is remembered: over a tenth of the time, a tenth of the GPU-seconds."""
    toy = ToyCluster([make_node("n1", gpus=1)], [make_queue("red", guaranteed=0)], [make_job("long")])
    toy.cycle()
    toy.now += 86_400.0
    before = remembered_of(toy)["red"]
    toy.state.observe(QueueObserved(make_queue("red", guaranteed=0, half_life_s=8_640)))

    after = remembered_of(toy)["red"]
    toy.end("red/long")
    toy.now += 8_640.0
    later = remembered_of(toy)["red"]

    assert round(after) == round(before / 10)
    assert round(later) == round(after / 2)


def test_an_admission_that_failed_leaves_no_penalty_behind() -> None:
    toy = ToyCluster([make_node("n1", gpus=1)], [make_queue("red", guaranteed=0)], [make_job("a")])
    plan = schedule(toy.snapshot())
    toy.state.assume(plan, toy.now)
    assert remembered_of(toy) == {"red": 60_000.0}

    toy.state.forget(plan.actions[0])

    assert toy.state.job("red/a") == toy.jobs["red/a"]
    assert sum(remembered_of(toy).values()) == 0.0
