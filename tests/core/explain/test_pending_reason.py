"""Reasons to wait: the state of the GPUs, and the limit that is used up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant.core.explain.pending_reason import waiting_for_eviction
from cotenant.core.model.objects import (
    GpuRequest,
    Job,
    Node,
    Quota,
    Sharing,
    Spread,
    Topology,
    TopologyMode,
    VolumePlaces,
)
from cotenant.core.model.plan import Reason, Refusal, Verdict
from cotenant.core.policy import Policy
from cotenant.core.scheduling.scheduler import schedule
from tests.support.clusters import ToyCluster, make_job, make_node, make_placement, make_queue, make_snapshot

RED = make_queue("red", guaranteed=8, limit=8)


def test_for_a_share_that_does_not_fit_the_state_of_the_gpus_is_named() -> None:
    jobs = [make_job(f"j{index}", queue="red", milli=400, workers=2, at=index) for index in range(3)]

    plan = schedule(make_snapshot(nodes=[make_node("n1")], queues=[RED], jobs=jobs))

    assert plan.verdicts["red/j2"].message == (
        "Needs 2 workers × 0.4 GPU, each on a GPU of its own. Queue red allows it, but none of 2 workers fits now: "
        "on 2 GPUs 0.8 is taken and 0.2 left."
    )


def test_a_limit_that_is_used_up_is_named_with_its_numbers() -> None:
    queues = [make_queue("red", guaranteed=1, limit=3)]
    jobs = [make_job("old", gpus=2, placement=make_placement(("n1", [[0, 1]]))), make_job("new", gpus=2)]

    plan = schedule(make_snapshot(nodes=[make_node("n1", gpus=8)], queues=queues, jobs=jobs))

    verdict = plan.verdicts["red/new"]
    assert verdict.reason == Reason.WAITING_FOR_QUOTA
    assert dict(verdict.evidence) == {
        "metric": "GPU",
        "scope": "queue red, class any, zone any",
        "limit": 3000,
        "used": 2000,
        "asked": 2000,
        "available": 1000,
    }
    assert verdict.message == (
        "Needs 2 GPUs, together 2 GPU; queue red, class any, zone any: limit 3 GPU, used 2 GPU, available 1 GPU."
    )


def test_missing_cpu_is_named_with_what_one_worker_asks_for() -> None:
    jobs = [
        make_job("old", cpu_milli=6_000, placement=make_placement(("n1", [[0]]))),
        make_job("new", cpu_milli=4_500, memory_mib=2_048),
    ]

    plan = schedule(make_snapshot(nodes=[make_node("n1", cpu_milli=8_000)], queues=[RED], jobs=jobs))

    verdict = plan.verdicts["red/new"]
    assert verdict.reason == Reason.WAITING_FOR_CPU_OR_MEMORY
    assert verdict.message == (
        "Needs 1 GPU. Queue red allows it, but it does not fit now: the GPUs are there, but their nodes lack CPU or "
        "memory (one worker asks for 4.5 CPU and 2 GiB of memory)."
    )
    assert dict(verdict.evidence) == {"asked": 1, "available": 0, "cpu_milli": 4_500, "memory_mib": 2_048}


def test_memory_that_the_operator_adds_is_named_beside_what_a_worker_asks() -> None:
    jobs = [
        make_job("old", memory_mib=6_000, placement=make_placement(("n1", [[0]]))),
        make_job("new", cpu_milli=1_000, memory_mib=2_816, added_memory_mib=768, chief_memory_mib=4_864),
    ]

    plan = schedule(make_snapshot(nodes=[make_node("n1", host_mib=8_000)], queues=[RED], jobs=jobs))

    verdict = plan.verdicts["red/new"]
    assert verdict.message.endswith(
        "(one worker asks for 1 CPU and 2 GiB of memory, and 1 CPU and 4 GiB of memory for the chief, to which "
        "768 MiB for Cotenant's launcher are added)."
    )
    assert dict(verdict.evidence)["memory_mib"] == 2_048


def test_the_amounts_of_the_chief_are_named_too() -> None:
    jobs = [
        make_job("old", cpu_milli=6_000, placement=make_placement(("n1", [[0]]))),
        make_job("new", cpu_milli=1_000, memory_mib=2_048, chief_cpu_milli=4_000),
    ]

    plan = schedule(make_snapshot(nodes=[make_node("n1", cpu_milli=8_000)], queues=[RED], jobs=jobs))

    assert plan.verdicts["red/new"].message.endswith(
        "(one worker asks for 1 CPU and 2 GiB of memory, and 4 CPU and 2 GiB of memory for the chief)."
    )


@pytest.mark.parametrize(
    ("nodes", "named"),
    [
        (("n1",), "n1"),
        (("n1", "n2", "n3"), "n1, n2, n3"),
        (("n1", "n2", "n3", "n4"), "n1, n2, n3 and 1 more"),
        (("n1", "n2", "n3", "n4", "n5"), "n1, n2, n3 and 2 more"),
    ],
)
def test_nodes_being_freed_are_named_up_to_three_and_then_counted(nodes: tuple[str, ...], named: str) -> None:
    placement = make_placement(*((node, [[0]]) for node in nodes))

    assert waiting_for_eviction(placement) == Refusal(
        reason=Reason.WAITING_FOR_EVICTION,
        message=f"Jobs on {named} were asked to leave; this job starts when they are gone.",
        evidence=(("nodes", named),),
    )


def held(name: str, *nodes: tuple[str, list[list[int]]], milli: int = 1_000, **changes: Any) -> Job:
    return make_job(name, placement=make_placement(*nodes, milli=milli), workers=len(nodes), milli=milli, **changes)


FOUR = [make_node("n1"), make_node("n2")]
"""Two nodes of two GPUs."""


@pytest.mark.parametrize(
    ("running", "new", "reason", "stand"),
    [
        pytest.param(
            [held("old", ("n1", [[0]]), ("n2", [[0]]))], make_job("new", gpus=2), Reason.WAITING_FOR_GPUS,
            "it does not fit now: 2 of 4 GPUs are free, at most 1 of them on one node.", id="whole GPUs on one node",
        ),
        pytest.param(
            [held("old", ("n1", [[0]]))], make_job("new", workers=4), Reason.WAITING_FOR_GPUS,
            "only 3 of 4 workers fit now: 3 of 4 GPUs are free.", id="whole GPUs anywhere",
        ),
        pytest.param(
            [held("a", ("n1", [[0]])), held("b", ("n1", [[1]]), milli=700), held("c", ("n2", [[0]]), milli=600),
             held("d", ("n2", [[1]]), milli=700)],
            make_job("new", milli=500), Reason.WAITING_FOR_GPUS,
            "it does not fit now: on 1 GPU 0.6 is taken and 0.4 left; on 2 GPUs 0.7 is taken and 0.3 left; on 1 GPU "
            "nothing is left.", id="shares, those with most left first",
        ),
        pytest.param(
            [held("a", ("n1", [[0]])), held("b", ("n1", [[1]])),
             held("c", ("n2", [[0]]), milli=100, sharing=Sharing.NEVER),
             held("d", ("n2", [[1]]), milli=100, sharing=Sharing.NEVER)],
            make_job("new", milli=500), Reason.WAITING_FOR_GPUS,
            "it does not fit now: on 2 GPUs nothing is left; 2 GPUs with room are not shared with this job "
            "(a job on it is of another queue, or asks for sharing: Never).",
            id="shares that others keep to themselves",
        ),
        pytest.param(
            [held("a", ("n1", [[0]]), ("n1", [[1]]), ("n2", [[0]])),
             held("d", ("n2", [[1]]), milli=100, sharing=Sharing.NEVER)],
            make_job("new", milli=500), Reason.WAITING_FOR_GPUS,
            "it does not fit now: on 3 GPUs nothing is left; 1 GPU with room is not shared with this job "
            "(a job on it is of another queue, or asks for sharing: Never).",
            id="one share that another keeps to itself",
        ),
        pytest.param(
            [held("old", ("n1", [[0]]), ("n2", [[0]]))],
            make_job("new", workers=2, topology=Topology("rack", TopologyMode.REQUIRED)), Reason.WAITING_FOR_TOPOLOGY,
            "only 1 of 2 workers fit now inside one rack; spread over several there would be room.", id="in one rack",
        ),
        pytest.param(
            [held("old", ("n1", [[0]]), ("n1", [[1]]), ("n2", [[0]]))],
            make_job("new", workers=2, topology=Topology("rack", TopologyMode.REQUIRED)), Reason.WAITING_FOR_GPUS,
            "only 1 of 2 workers fit now: 1 of 4 GPUs are free.", id="in one rack, and there is no room outside either",
        ),
        pytest.param(
            [held("old", ("n2", [[0]]), ("n2", [[1]]))],
            make_job("new", workers=2, spread=Spread("node", TopologyMode.REQUIRED)), Reason.WAITING_FOR_SPREAD,
            "only 1 of 2 workers fit now with at most 1 worker on one node; otherwise there would be room.",
            id="on a node each",
        ),
        pytest.param(
            [held("old", ("n2", [[0]]), ("n2", [[1]]))],
            make_job("new", workers=2, spread=Spread("rack", TopologyMode.REQUIRED),
                     topology=Topology("zone", TopologyMode.REQUIRED)), Reason.WAITING_FOR_SPREAD,
            "only 1 of 2 workers fit now with at most 1 worker in one rack; otherwise there would be room.",
            id="in a rack each, of one zone",
        ),
        pytest.param(
            [held("old", ("n1", [[0]]), ("n1", [[1]]), ("n2", [[0]]))],
            make_job("new", workers=2, spread=Spread("node", TopologyMode.REQUIRED)), Reason.WAITING_FOR_GPUS,
            "only 1 of 2 workers fit now: 1 of 4 GPUs are free.", id="on a node each, and there is no room on one",
        ),
        pytest.param(
            [held("old", ("n1", [[0]]), ("n2", [[0]]))],
            make_job("new", workers=3, spread=Spread("node", TopologyMode.PREFERRED)), Reason.WAITING_FOR_GPUS,
            "only 2 of 3 workers fit now: 2 of 4 GPUs are free.", id="spread only where there is room",
        ),
        pytest.param(
            [held(node, (node, [[0]]), cpu_milli=64_000, memory_mib=512 * 1024) for node in ("n1", "n2")],
            make_job("new", cpu_milli=1_000, memory_mib=1_000), Reason.WAITING_FOR_CPU_OR_MEMORY,
            "it does not fit now: the GPUs are there, but their nodes lack CPU or memory (one worker asks for 1 CPU "
            "and 1000 MiB of memory).", id="nodes without any CPU and memory",
        ),
    ],
)  # fmt: skip
def test_for_a_job_without_room_the_message_says_what_there_is(
    running: list[Job], new: Job, reason: Reason, stand: str
) -> None:
    nodes = [replace(node, rack=node.name) for node in FOUR]
    queue = make_queue("red", guaranteed=8)

    verdict = schedule(make_snapshot(nodes=nodes, queues=[queue], jobs=[*running, new])).verdicts["red/new"]

    assert (verdict.reason, verdict.message.partition("allows it, but ")[2]) == (reason, stand)


def test_if_memory_is_scarcer_its_part_is_named_as_left() -> None:
    gpu = GpuRequest(memory_mib=65_536, compute_milli=100)
    running = make_job("old", gpu=gpu)
    toy = ToyCluster([make_node("n1", gpus=1)], [RED], [running])
    toy.cycle()
    toy.observe(make_job("new", gpu=gpu, at=1))

    assert toy.cycle().verdicts["red/new"].message.endswith("on 1 GPU 0.8 is taken and 0.2 left.")


def test_of_exhausted_zones_the_one_with_most_left_is_named() -> None:
    """One of two may be had in east, two of three in west: three workers, and four are asked for."""
    lines = (Quota(zone="east", limit=2_000), Quota(zone="west", limit=3_000))
    nodes = [make_node(zone, gpus=8, zone=zone) for zone in ("east", "west")]
    queue = replace(make_queue("red"), quotas=lines)
    running = [held("a", ("east", [[0]])), held("b", ("west", [[0]]))]

    def verdict(workers: int) -> Verdict | None:
        jobs = [*running, make_job("new", workers=workers)]
        return schedule(make_snapshot(nodes=nodes, queues=[queue], jobs=jobs)).verdicts.get("red/new")

    found = verdict(4)
    assert verdict(3) is None
    assert found is not None
    assert (found.reason, found.message) == (
        Reason.WAITING_FOR_QUOTA,
        "Needs 4 workers × 1 GPU, together 4 GPU; queue red, class any, zone west: limit 3 GPU, used 1 GPU, "
        "available 2 GPU.",
    )


EAST = [make_node("n1", zone="east"), make_node("n2", zone="west")]
CLASSES = [make_node("h", gpus=4), make_node("a", gpus=4, gpu_class="A100")]
ZONES = [*(replace(node, zone="east") for node in CLASSES), make_node("w", gpus=4, zone="west")]
BY_ZONE = (Quota(gpu_class="H100", zone="east", limit=2_000), Quota(gpu_class="H100", zone="west", limit=1_000))


def by_class(h100: int, a100: int) -> tuple[Quota, ...]:
    """Limits in whole GPUs."""
    return Quota(gpu_class="H100", limit=h100 * 1_000), Quota(gpu_class="A100", limit=a100 * 1_000)


def on(node: str, columns: int) -> list[Job]:
    """`columns` jobs of one GPU each, all on one node."""
    return [held(f"{node}{column}", (node, [[column]])) for column in range(columns)]


TWO_ZONES = [make_node("e", gpus=8, zone="east"), make_node("w", gpus=4, zone="west")]


def two_limits(east: int, west: int) -> tuple[Quota, ...]:
    """Limits of zones in whole GPUs."""
    return Quota(zone="east", limit=east * 1_000), Quota(zone="west", limit=west * 1_000)


IN_THE_WAY: dict[str, tuple[list[Node], tuple[Quota, ...], list[Job], Job, Reason, str]] = {
    "a limit that leaves as much as is asked for is not in the way": (
        [make_node("n1")], (Quota(limit=3_000),), on("n1", 1), make_job("new", workers=2), Reason.WAITING_FOR_GPUS,
        "Queue red allows it, but only 1 of 2 workers fit now: 1 of 2 GPUs are free.",
    ),
    "a limit of one zone is not in the way of another": (
        EAST, (Quota(zone="east", limit=2_000), Quota(limit=8_000)), [*on("n1", 2), *on("n2", 2)], make_job("new"),
        Reason.WAITING_FOR_GPUS, "Queue red allows it, but it does not fit now: 0 of 4 GPUs are free.",
    ),
    "limits of zones that leave as much as is asked for are not in the way": (
        EAST, (Quota(zone="east", limit=3_000), Quota(zone="west", limit=2_000)), [*on("n1", 1), *on("n2", 1)],
        make_job("new", gpus=2), Reason.WAITING_FOR_GPUS,
        "Queue red allows it, but it does not fit now: 2 of 4 GPUs are free, at most 1 of them on one node.",
    ),
    "of two classes the limit that leaves more": (
        CLASSES, by_class(3, 3), [*on("h", 2), *on("a", 1)], make_job("new", workers=3, classes=("H100", "A100")),
        Reason.WAITING_FOR_QUOTA,
        "together 3 GPU; queue red, class A100, zone any: limit 3 GPU, used 1 GPU, available 2 GPU.",
    ),
    "of two classes with as much left the preferred one": (
        CLASSES, by_class(2, 2), [*on("h", 1), *on("a", 1)], make_job("new", workers=2, classes=("A100", "H100")),
        Reason.WAITING_FOR_QUOTA,
        "together 2 GPU; queue red, class A100, zone any: limit 2 GPU, used 1 GPU, available 1 GPU.",
    ),
    "zones that are too small together are no nearer than a limit that leaves nothing": (
        ZONES, (*BY_ZONE, by_class(0, 3)[1]), [*on("h", 1), *on("w", 1), *on("a", 3)],
        make_job("new", workers=3, classes=("A100", "H100")), Reason.WAITING_FOR_QUOTA,
        "together 3 GPU; queue red, class A100, zone any: limit 3 GPU, used 3 GPU, available 0 GPU.",
    ),
    "nor further": (
        ZONES, (*BY_ZONE, by_class(0, 3)[1]), [*on("h", 1), *on("w", 1), *on("a", 3)],
        make_job("new", workers=3, classes=("H100", "A100")), Reason.WAITING_FOR_QUOTA,
        "together 3 GPU; queue red, class H100, zone east: limit 2 GPU, used 1 GPU, available 1 GPU.",
    ),
    "of zones that would do together, the one with room that allows too few": (
        TWO_ZONES, two_limits(3, 8), [*on("e", 2), *on("w", 4)], make_job("new", workers=2), Reason.WAITING_FOR_QUOTA,
        "Needs 2 workers × 1 GPU, together 2 GPU; queue red, class any, zone east: limit 3 GPU, used 2 GPU, available "
        "1 GPU. Without this limit there would be room.",
    ),
    "also where the gang has to lie in one of them": (
        TWO_ZONES, two_limits(3, 8), [*on("e", 2), *on("w", 4)],
        make_job("new", workers=2, topology=Topology("zone", TopologyMode.REQUIRED)), Reason.WAITING_FOR_QUOTA,
        "zone east: limit 3 GPU, used 2 GPU, available 1 GPU. Without this limit there would be room.",
    ),
    "of zones that allow too few together, the one with room": (
        TWO_ZONES, two_limits(2, 6), [*on("e", 1), *on("w", 4)], make_job("new", workers=4), Reason.WAITING_FOR_QUOTA,
        "zone east: limit 2 GPU, used 1 GPU, available 1 GPU.",
    ),
    "of zones that would do together, the one with most room where all of them have to allow more": (
        [*TWO_ZONES, make_node("s", gpus=4, zone="south")],
        (*two_limits(1, 2), Quota(zone="south", limit=16_000)), [*on("w", 1), *on("s", 3)],
        make_job("new", workers=12), Reason.WAITING_FOR_QUOTA,
        "together 12 GPU; queue red, class any, zone east: limit 1 GPU, used 0 GPU, available 1 GPU.",
    ),
    "a zone that allows too few is not in the way where it has no room either": (
        TWO_ZONES, two_limits(8, 8), [*on("e", 7), *on("w", 4)], make_job("new", workers=2), Reason.WAITING_FOR_GPUS,
        "Queue red allows it, but only 1 of 2 workers fit now: 1 of 12 GPUs are free.",
    ),
    "nor CPU and memory where quotas of zones bind": (
        [replace(TWO_ZONES[0], rack="r1", cpu_milli=1_000), TWO_ZONES[1]], two_limits(1, 8), on("w", 4),
        make_job("new", workers=2, cpu_milli=1_000), Reason.WAITING_FOR_GPUS,
        "Queue red allows it, but only 1 of 2 workers fit now: 8 of 12 GPUs are free.",
    ),
    "a guarantee that is used up, of a job that may not be evicted": (
        TWO_ZONES, (Quota(guaranteed=2_000),), [held("old", ("e", [[0]]), ("e", [[1]]), priority=9)],
        make_job("new", preemptible=False), Reason.WAITING_FOR_QUOTA,
        "together 1 GPU; guarantee of queue red, class any, zone any: limit 2 GPU, used 2 GPU, available 0 GPU. It is "
        "not preemptible, and such a job runs only inside a guarantee.",
    ),
    "a guarantee of a zone that is used up, where the other has no room": (
        TWO_ZONES, (Quota(zone="east", guaranteed=1_000), Quota(zone="west", guaranteed=4_000)),
        [held("old", ("e", [[0]]), priority=9), *(replace(job, priority=9) for job in on("w", 4))],
        make_job("new", preemptible=False), Reason.WAITING_FOR_QUOTA,
        "zone east: limit 1 GPU, used 1 GPU, available 0 GPU. It is not preemptible, and such a job runs only inside a "
        "guarantee.",
    ),
    "of two classes without room the preferred one is told by its name": (
        [make_node("h"), make_node("a", gpu_class="A100")], (Quota(guaranteed=8_000),), [*on("h", 1), *on("a", 2)],
        make_job("new", workers=2, classes=("H100", "A100")), Reason.WAITING_FOR_GPUS,
        "Queue red allows it, but only 1 of 2 workers fit now on class H100: 1 of 2 GPUs are free.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", IN_THE_WAY)
def test_the_nearest_obstacle_is_named(case: str) -> None:
    nodes, quotas, running, new, reason, message = IN_THE_WAY[case]
    queue = replace(make_queue("red"), quotas=quotas)

    verdict = schedule(make_snapshot(nodes=nodes, queues=[queue], jobs=[*running, new])).verdicts["red/new"]

    assert (verdict.reason, verdict.message[-len(message) :]) == (reason, message)


def test_the_state_of_gpus_is_that_of_the_requests_own_nodes_at_that_moment() -> None:
    """Two kinds of requests wait for the same amounts, in two zones; a third starts between them."""
    nodes = [make_node("n1", gpus=4, zone="east"), make_node("n2", gpus=8, zone="west")]
    old = [
        make_job(f"old{node}", gpus=2, priority=1, placement=make_placement((node, [[0, 1]]))) for node in ("n1", "n2")
    ]
    new = [
        make_job("first", gpus=8, at=1.0, cpu_milli=2_000, priority=1, zones=("west",)),
        make_job("starts", gpus=2, at=2.0, zones=("west",)),
        make_job("second", gpus=8, at=3.0, cpu_milli=2_000, zones=("west",)),
        make_job("third", gpus=8, at=4.0, cpu_milli=2_000),
    ]
    policy = Policy(reserve_within_s=0, collect_after_s=0)
    snapshot = make_snapshot(nodes=nodes, queues=[make_queue("red", guaranteed=12)], jobs=[*old, *new])

    verdicts = schedule(snapshot, policy).verdicts

    stands = {name: verdicts[f"red/{name}"].message.split(": ")[-1] for name in ("first", "second", "third")}
    assert stands == {
        "first": "6 of 8 GPUs are free, at most 6 of them on one node.",
        "second": "4 of 8 GPUs are free, at most 4 of them on one node.",
        "third": "6 of 12 GPUs are free, at most 4 of them on one node.",
    }


IN_B = VolumePlaces(frozenset({"n2"}), "claim data is bound to volume disk in zone b")
TOGETHER = Topology("node", TopologyMode.REQUIRED)
ONE_NODE = VolumePlaces(None, "", "One node alone can mount claim data.")


@pytest.mark.parametrize(
    ("job", "reason", "message"),
    [
        pytest.param(
            replace(make_job("new"), volumes=IN_B),
            Reason.WAITING_FOR_GPUS,
            "Needs 1 GPU. Queue red allows it, but it does not fit now where its pods can run (claim data is"
            " bound to volume disk in zone b): 0 of 1 GPU are free.",
            id="a place that others hold",
        ),
        pytest.param(
            replace(make_job("new"), volumes=replace(IN_B, nodes=frozenset({"elsewhere"}))),
            Reason.EXCEEDS_CLUSTER,
            "Needs 1 GPU; even an empty cluster holds only 0 of 1 such worker where its pods can run (claim"
            " data is bound to volume disk in zone b).",
            id="a place without GPUs",
        ),
        pytest.param(
            replace(make_job("new", workers=2), topology=TOGETHER, volumes=ONE_NODE),
            Reason.WAITING_FOR_TOPOLOGY,
            "Needs 2 workers × 1 GPU. Queue red allows it, but only 1 of 2 workers fit now inside one node; spread over"
            " several there would be room. One node alone can mount claim data.",
            id="a gang that has to be on one node",
        ),
        pytest.param(
            replace(make_job("new", workers=3), topology=TOGETHER, volumes=ONE_NODE),
            Reason.EXCEEDS_CLUSTER,
            "Needs 3 workers × 1 GPU; even an empty cluster holds only 2 of 3 such workers inside one node."
            " One node alone can mount claim data.",
            id="a gang that is larger than a node",
        ),
    ],
)
def test_a_job_that_waits_for_its_volumes_names_the_claim_the_volume_and_its_zone(
    job: Job, reason: Reason, message: str
) -> None:
    held = make_job("old", placement=make_placement(("n2", [[0]])))
    nodes = [make_node("n1", gpus=1), make_node("n2", gpus=1), make_node("n3", gpus=2)]
    others = [make_job("third", placement=make_placement(("n3", [[0]])))]
    verdict = schedule(make_snapshot(nodes=nodes, queues=[RED], jobs=[held, *others, job])).verdicts["red/new"]
    assert (verdict.reason, verdict.message) == (reason, message)
