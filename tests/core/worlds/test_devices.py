"""Clusters of several makers in one queue tree: what is handed out whole is never shared, and no gang lies on two kinds
of devices, in whole stories of random jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.core.model.objects import Gpu, GpuRequest, GrantedGpu, Job, Node, Sharing
from cotenant.core.model.plan import Admit, Reason
from cotenant.core.scheduling.scheduler import schedule
from tests.support.clusters import ToyCluster, make_job, make_node, make_placement, make_queue, make_snapshot

AMD, TPU = "amd.com/gpu", "google.com/tpu"
CLASSES = {"": ("A100", "H100", "odd"), AMD: ("MI300X", "odd"), TPU: ("v5e",)}
"""Kind of device → classes; an administrator has given one name to two kinds."""
QUEUES = [
    make_queue("red", guaranteed=3, weight=2, namespaces=frozenset({"red", "blue"})),
    make_queue("blue", guaranteed=2, namespaces=frozenset({"red", "blue"})),
]


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    found = []
    for index in range(draw(st.integers(1, 5))):
        resource = draw(st.sampled_from(tuple(CLASSES)))
        gpu_class = draw(st.sampled_from(CLASSES[resource]))
        memory = draw(st.sampled_from((0, 1, 40_000))) if resource else 40_000
        gpus = draw(st.integers(1, 4))
        found.append(make_node(f"n{index}", gpus=gpus, gpu_class=gpu_class, memory_mib=memory, resource=resource))
    return found


@st.composite
def requests(draw: st.DrawFn) -> GpuRequest:
    names = sorted({name for classes in CLASSES.values() for name in classes})
    classes = tuple(draw(st.lists(st.sampled_from(names), max_size=3, unique=True)))
    sharing = draw(st.sampled_from(Sharing))
    amounts = (GpuRequest(count=1), GpuRequest(count=2), GpuRequest(memory_milli=400), GpuRequest(memory_mib=9_000))
    return replace(draw(st.sampled_from(amounts)), classes=classes, sharing=sharing)


@st.composite
def jobs(draw: st.DrawFn) -> list[Job]:
    found = []
    for index in range(draw(st.integers(1, 10))):
        low = draw(st.integers(1, 3))
        found.append(
            make_job(
                f"j{index}",
                queue=draw(st.sampled_from(("red", "blue"))),
                workers=(low, low + draw(st.integers(0, 2))),
                gpu=draw(requests()),
                at=float(index),
                priority=draw(st.integers(0, 2)),
                distinct_gpus=draw(st.booleans()),
            )
        )
    return found


@given(nodes=nodes(), jobs=jobs(), ends=st.lists(st.integers(0, 9), max_size=4))
def test_whole_devices_are_not_shared_and_gangs_stay_with_one_kind(
    nodes: list[Node], jobs: list[Job], ends: list[int]
) -> None:
    toy = ToyCluster(nodes, QUEUES)
    gpus = {gpu.uuid: gpu for node in nodes for gpu in node.gpus}
    for number, job in enumerate(jobs):
        toy.observe(job)
        toy.cycle()
        if number in ends:
            toy.end(jobs[number // 2].key)
        held = [(one, grant) for one in toy.jobs.values() for grant in grants(one)]
        whole = [grant.uuid for _, grant in held if gpus[grant.uuid].whole_only]
        assert len(set(whole)) == len(whole)
        for one in toy.jobs.values():
            kinds = {gpus[grant.uuid].resource for grant in grants(one)}
            assert len(kinds) <= 1
            assert not (one.gpu.is_share and any(gpus[grant.uuid].whole_only for grant in grants(one)))


def grants(job: Job) -> Sequence[GrantedGpu]:
    return (
        [grant for node in job.placement.nodes for rank in node.ranks for grant in rank.gpus] if job.placement else []
    )


def mixed(*kinds: str) -> list[Node]:
    return [make_node(f"n{index}", gpu_class=CLASSES[kind][0], resource=kind) for index, kind in enumerate(kinds)]


def decided(nodes: list[Node], *jobs: Job) -> dict[str, Any]:
    """Job → the class that it got, or why it waits."""
    plan = schedule(make_snapshot(nodes=nodes, queues=[make_queue("red", guaranteed=8)], jobs=list(jobs)))
    classes = {gpu.uuid: gpu.gpu_class for node in nodes for gpu in node.gpus}
    got = {
        action.job: classes[action.placement.nodes[0].ranks[0].gpus[0].uuid]
        for action in plan.actions
        if isinstance(action, Admit)
    }
    return got | {key: (verdict.reason, verdict.message) for key, verdict in plan.verdicts.items() if key not in got}


def test_the_refusal_of_a_share_of_whole_devices_says_to_ask_for_whole_ones() -> None:
    asked = make_job("a", milli=400, classes=("MI300X",))
    assert decided(mixed("", AMD), asked) == {
        "red/a": (
            Reason.CLASS_NOT_SHARED,
            "One worker needs 0.4 GPU, and class MI300X is not shared: ask for whole devices (spec.gpu.count).",
        )
    }


def test_a_share_takes_the_class_of_its_list_that_can_be_shared() -> None:
    asked = make_job("a", milli=400, classes=("MI300X", "A100"))
    assert decided(mixed(AMD, ""), asked) == {"red/a": "A100"}


@pytest.mark.parametrize(
    ("kinds", "got"),
    [
        pytest.param(("", AMD), "A100", id="GPUs of CUDA where there are any"),
        pytest.param((AMD, AMD), "MI300X", id="the only kind that there is"),
    ],
)
def test_a_job_that_names_no_class_gets(kinds: tuple[str, ...], got: str) -> None:
    assert decided(mixed(*kinds), make_job("a")) == {"red/a": got}


def test_without_cuda_gpus_a_job_has_to_name_a_class() -> None:
    (answer,) = decided(mixed(AMD, TPU), make_job("a")).values()
    assert answer == (
        Reason.CLASS_NOT_FOUND,
        "This cluster has devices of several makers and no CUDA GPU: name the class that the program is written for"
        " (spec.gpu.classes); there is MI300X, v5e.",
    )


def test_a_gang_never_mixes_two_kinds_of_devices_even_of_one_class() -> None:
    nodes = [make_node("a", gpu_class="odd"), make_node("b", gpu_class="odd", resource=AMD)]
    fits, waits = make_job("fits", workers=2, classes=("odd",)), make_job("waits", workers=3, classes=("odd",))
    answers = decided(nodes, fits, waits)
    assert answers["red/fits"] == "odd"
    reason, message = answers["red/waits"]
    assert reason is Reason.EXCEEDS_CLUSTER
    assert "only 2 of 3 such workers" in message


def test_devices_of_another_maker_are_never_advised() -> None:
    """The H100 is taken, an A100 and a MI300X are free: only the first runs the same programs."""
    nodes = [make_node("h", gpus=1), *mixed("", AMD)]
    taken = make_job("taken", placement=make_placement(("h", [[0]])))
    advice = [
        schedule(make_snapshot(nodes=there, queues=[make_queue("red", guaranteed=8)], jobs=[taken, new])).verdicts
        for there, new in (
            (nodes, make_job("new", classes=("H100",))),
            (nodes[:1] + nodes[2:], make_job("new", classes=("H100",))),
        )
    ]
    assert [one["red/new"].would_start_if for one in advice] == ["it also allowed class A100", ""]


def test_a_device_of_unknown_memory_is_handed_out_whole() -> None:
    node = Node(
        name="n1",
        gpus=tuple(Gpu(uuid=f"TPU-{index}", gpu_class="v5e", memory_mib=0, index=index, whole_only=True, resource=TPU)
                   for index in range(4)),
        cpu_milli=64_000,
        memory_mib=64_000,
    )  # fmt: skip
    assert decided([node], make_job("a", gpus=4, classes=("v5e",))) == {"red/a": "v5e"}
