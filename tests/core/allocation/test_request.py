"""Ways in which a job could run, resolved once for all jobs that ask for the same."""

from __future__ import annotations

import ast
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant import core
from cotenant.core.allocation.request import Option, options_of, request_key
from cotenant.core.gpus.inventory import Inventory
from cotenant.core.model.objects import (
    GpuRequest,
    Job,
    Quota,
    Spread,
    TenantQueue,
    Topology,
    TopologyMode,
    UserLimit,
    VolumePlaces,
)
from cotenant.core.placement.fitting import Tenancy
from cotenant.core.placement.shapes import Shape
from cotenant.core.quota.tree import QueueTree
from tests.support.clusters import make_job, make_node, make_placement, make_queue

INVENTORY = Inventory.of(
    [
        make_node("a1", gpu_class="A100", memory_mib=40_960, zone="east"),
        make_node("h1", zone="east"),
        make_node("h2", zone="west"),
    ]
)
RED = make_queue("red", guaranteed=1)
JOB = make_job("a")

ALIKE: dict[str, Any] = {
    "key": "red/other",
    "uid": "other",
    "submitted_at": 9.0,
    "requeued_at": 9.0,
    "placement": make_placement(("n1", [[0]])),
    "admitted_at": 9.0,
    "backfilled_until": 9.0,
    "last_checkpoint_at": 9.0,
    "expected_runtime_s": 9,
    "max_runtime_s": 9,
    "ran_s": 9,
    "evicting": True,
    "idle": True,
    "asked_memory_mib": 1,
    "resizing_from": make_placement(("n1", [[0]])),
}
DIFFERENT: dict[str, Any] = {
    "namespace": "other",
    "queue": "blue",
    "user": "ann",
    "priority": 1,
    "priority_class": "urgent",
    "workers_min": 2,
    "workers_max": 9,
    "gpu": GpuRequest(count=2),
    "cpu_milli": 1,
    "memory_mib": 1,
    "scratch_mib": 1,
    "chief_cpu_milli": 1,
    "chief_memory_mib": 1,
    "chief_scratch_mib": 1,
    "added_memory_mib": 1,
    "topology": Topology("rack", TopologyMode.PREFERRED),
    "spread": Spread("node", TopologyMode.PREFERRED),
    "distinct_gpus": False,
    "preemptible": False,
    "evicts_from": 9.0,
    "excluded_nodes": frozenset({"n1"}),
    "only_nodes": frozenset({"n1"}),
    "volumes": VolumePlaces(frozenset({"n1"}), "claim data is bound to volume disk in zone a"),
    "move_asked": True,
}


@pytest.mark.parametrize("name", [field.name for field in fields(Job)])
def test_jobs_share_a_request_unless_they_differ_in_something_a_rule_reads(name: str) -> None:
    other = replace(JOB, **{name: (ALIKE | DIFFERENT)[name]})

    assert (request_key(other) == request_key(JOB)) is (name in ALIKE)


@pytest.mark.parametrize(
    "path",
    [
        "allocation/request.py",
        "explain/inadmissible.py",
        "explain/queue_refusals.py",
        "explain/unsatisfiable.py",
        "placement/shapes.py",
    ],
)
def test_resolving_a_request_reads_only_fields_that_are_in_its_key(path: str) -> None:
    """Jobs with equal keys share one request or one refusal, in a cycle and from cycle to cycle."""
    source = (Path(core.__file__).parent / path).read_text()
    attributes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute))
    read = {node.attr for node in attributes if ast.unparse(node.value).rpartition(".")[2] == "job"}

    assert read
    assert read & ALIKE.keys() <= {"key"}  # the name of a job, under which its request is remembered


def test_whether_a_gang_may_grow_is_part_of_its_request_and_how_far_is_not() -> None:
    may_grow, further, may_not = (request_key(make_job("a", workers=workers)) for workers in ((1, 2), (1, 9), 1))

    assert may_grow == further != may_not


OTHERWISE = {name: value for name, value in (ALIKE | DIFFERENT).items() if name not in {"queue", "workers_min"}}


@given(changed=st.sets(st.sampled_from(sorted(OTHERWISE))), more=st.sampled_from(sorted(OTHERWISE)))
def test_jobs_with_equal_keys_have_equal_options(changed: set[str], more: str) -> None:
    """Whatever their fields are: a field that a way depends on is a field of the key."""
    one = replace(JOB, **{name: OTHERWISE[name] for name in changed})
    other = replace(one, **{more: getattr(JOB, more) if more in changed else OTHERWISE[more]})

    assert request_key(one) != request_key(other) or ways(one) == ways(other)


def options(job: Job, *queues: TenantQueue) -> tuple[Option, ...]:
    return options_of(job, INVENTORY, QueueTree.of(queues or (RED,), INVENTORY))


def ways(job: Job, *queues: TenantQueue) -> list[tuple[str, list[str]]]:
    """Class of each option, and the nodes that may serve."""
    return [
        (
            option.gpu_class,
            [INVENTORY.nodes[row].name for row in np.arange(len(INVENTORY.nodes))[option.placement_request.rows]],
        )
        for option in options(job, *queues)
    ]


A100, H100 = ["a1"], ["h1", "h2"]
ALL = A100 + H100
EAST_ONLY = replace(RED, quotas=(Quota(zone="east", guaranteed=1_000),))
H100_ONLY = replace(RED, quotas=(Quota(gpu_class="H100", guaranteed=1_000),))
BOTH_CLASSES = replace(RED, quotas=(Quota(gpu_class="H100"), Quota(gpu_class="A100")))


@pytest.mark.parametrize(
    ("job", "queue", "want"),
    [
        pytest.param(JOB, RED, [("", ALL)], id="one worker that names no class chooses freely"),
        pytest.param(
            make_job("a", workers=2),
            RED,
            [("A100", A100), ("H100", H100), ("", ALL)],
            id="a gang that names none prefers one class and is mixed last",
        ),
        pytest.param(
            make_job("a", workers=(1, 2)),
            RED,
            [("A100", A100), ("H100", H100), ("", ALL)],
            id="a job that may grow counts as a gang",
        ),
        pytest.param(
            make_job("a", classes=("H100", "A100")),
            RED,
            [("H100", H100), ("A100", A100)],
            id="classes that are named come in the order of preference and are never mixed",
        ),
        pytest.param(
            make_job("a", classes=("B200", "H100")), RED, [("H100", H100)], id="a class that is not there is left out"
        ),
        pytest.param(JOB, H100_ONLY, [("H100", H100)], id="a class that no line covers is left out"),
        pytest.param(
            make_job("a", workers=2),
            BOTH_CLASSES,
            [("A100", A100), ("H100", H100)],
            id="under lines that name classes none are mixed",
        ),
        pytest.param(make_job("a", zones=("west",)), RED, [("", ["h2"])], id="zones of the job"),
        pytest.param(JOB, EAST_ONLY, [("", ["a1", "h1"])], id="zones that lines cover"),
        pytest.param(make_job("a", zones=("west",)), EAST_ONLY, [], id="no zone of the job that a line covers"),
        pytest.param(make_job("a", zones=("moon",)), RED, [], id="a zone that is not there"),
        pytest.param(
            replace(JOB, excluded_nodes=frozenset({"h1", "gone"})),
            RED,
            [("", ["a1", "h2"])],
            id="nodes that failed the job are left out",
        ),
        pytest.param(
            replace(JOB, only_nodes=frozenset({"h2", "a1", "gone"})),
            RED,
            [("", ["a1", "h2"])],
            id="nodes to which an administrator moves it",
        ),
        pytest.param(
            replace(JOB, volumes=VolumePlaces(frozenset({"h2", "gone"})), only_nodes=frozenset({"h1", "h2"})),
            RED,
            [("", ["h2"])],
            id="nodes on which its claims can be mounted, of those to which it moves",
        ),
        pytest.param(
            replace(JOB, volumes=VolumePlaces(frozenset())),
            RED,
            [("", [])],
            id="no node on which its claims can be mounted",
        ),
        pytest.param(replace(JOB, volumes=VolumePlaces(None)), RED, [("", ALL)], id="claims that any node can mount"),
        pytest.param(
            make_job("a", workers=2),
            replace(RED, quotas=(*RED.quotas, Quota(gpu_class="H100", limit=1_000))),
            [("A100", A100), ("H100", H100)],
            id="under a line that names a class beside one that names none no classes are mixed",
        ),
        pytest.param(
            make_job("a", workers=2),
            replace(RED, user_limits=(UserLimit(limit=1_000), UserLimit(gpu_class="H100", limit=500))),
            [("A100", A100), ("H100", H100)],
            id="nor under a limit of users that names one",
        ),
        pytest.param(
            JOB, replace(RED, user_limits=(UserLimit(limit=1_000),)), [("", ALL)], id="a limit of users of any class"
        ),
        pytest.param(
            make_job("a", gpu=GpuRequest(memory_mib=50_000)),
            RED,
            [("H100", H100)],
            id="a class too small for the share",
        ),
    ],
)
def test_the_ways_to_run_are(job: Job, queue: TenantQueue, want: list[tuple[str, list[str]]]) -> None:
    assert ways(job, queue) == want


def test_a_parents_quota_lines_for_single_classes_forbid_a_mix_too() -> None:
    found = ways(make_job("a", workers=2), replace(RED, parent="top"), replace(BOTH_CLASSES, name="top"))

    assert found == [("A100", A100), ("H100", H100)]


def test_an_option_has_the_shape_and_the_tenant_and_the_highest_cost_of_one_worker() -> None:
    topology = Topology("rack", TopologyMode.REQUIRED)
    job = make_job(
        "a",
        gpu=GpuRequest(memory_mib=20_480, classes=("H100", "A100"), zones=("east",)),
        cpu_milli=5,
        distinct_gpus=False,
        topology=topology,
    )
    first, second = options(job, make_queue("blue"), replace(RED, user_limit=1))

    shape = Shape(whole=False, memory_mib=20_480, cpu_milli=5, classes=("A100", "H100"), only_class="H100")
    wanted = first.placement_request
    assert (wanted.shape, wanted.tenancy) == (shape, Tenancy(1, job.gpu.sharing))
    assert (wanted.distinct, wanted.topology, np.arange(3)[wanted.rows].tolist()) == (False, topology, [1])
    assert (first.cost, first.buckets, first.limited) == ((250, 20_480), (("H100", "east"),), True)
    assert (second.cost, second.buckets) == ((500, 20_480), (("A100", "east"),))


def test_a_mixed_option_costs_what_its_dearest_class_costs_and_has_the_buckets_of_all() -> None:
    (mixed,) = options(make_job("a", gpu=GpuRequest(memory_mib=20_480)))
    (whole,) = options(make_job("a", gpus=2))

    assert (mixed.gpu_class, mixed.cost, mixed.limited) == ("", (500, 20_480), False)
    assert mixed.buckets == (("A100", "east"), ("A100", "west"), ("H100", "east"), ("H100", "west"))
    assert mixed.placement_request.rows == slice(None)
    assert whole.cost == (2_000, 163_840)


def test_an_option_looks_at_nodes_of_its_class_and_a_mixed_one_at_all_nodes() -> None:
    rows = [option.placement_request.rows for option in options(make_job("a", workers=2))]

    assert [row if row is None or isinstance(row, slice) else row.tolist() for row in rows] == [
        [0],
        [1, 2],
        slice(None),
    ]


@pytest.mark.parametrize(
    ("devices", "resources"),
    [((), ()), (("amd.com/gpu",), ("",)), (("amd.com/gpu", "intel.com/gpu"), ("",))],
    ids=["of one maker", "of two makers", "of three makers"],
)
def test_among_devices_of_several_makers_a_job_without_a_class_asks_for_cuda_gpus(
    devices: tuple[str, ...], resources: tuple[str, ...]
) -> None:
    others = [make_node(name, gpu_class=f"of {name}", resource=name) for name in devices]
    inventory = Inventory.of([*INVENTORY.nodes, *others])

    (mixed,) = options_of(JOB, inventory, QueueTree.of((RED,), inventory))

    assert (mixed.gpu_class, mixed.placement_request.shape.only_resources) == ("", resources)
