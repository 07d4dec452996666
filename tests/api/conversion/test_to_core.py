"""Jobs and queues become core values, whole."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.api.conversion import to_core
from cotenant.api.conversion.placements import from_placement
from cotenant.api.resources.placement_status import Isolation
from cotenant.api.validation.problems import DocumentError
from cotenant.core.model import objects as core
from cotenant.core.quota.budget import BudgetStanding

CREATED = "2026-01-01T00:00:00Z"
CREATED_AT = 1767225600.0


def job_document(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "apiVersion": "cotenant.dev/v1beta1",
        "kind": "TrainingJob",
        "metadata": {
            "name": "mnist",
            "namespace": "team-a",
            "uid": "u-1",
            "creationTimestamp": CREATED,
            "annotations": {"cotenant.dev/user": "alice@example.com"},
        },
        "spec": {"queue": "vision", "gpu": {"count": 1}, "runtime": {"entrypoint": "train:main"}} | (spec or {}),
        **({"status": status} if status else {}),
    }


def queue_document(spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "cotenant.dev/v1beta1", "kind": "Queue", "metadata": {"name": "vision"}, "spec": spec}


def test_a_job_with_everything_becomes_a_core_job() -> None:
    document = job_document(
        {
            "workers": 8,
            "minWorkers": 2,
            "priority": 5,
            "gpu": {
                "memory": "16.5Gi",
                "computeFraction": "0.25",
                "classes": ["H200", "H100"],
                "zones": ["eu-1a"],
                "sharing": "Any",
            },
            "resources": {"cpu": "1.5", "memory": "1G", "scratch": "20.5Gi"},
            "chief": {"resources": {"cpu": 6, "scratch": "1G"}},
            "topology": {"level": "rack", "mode": "Required"},
            "spread": {"level": "node", "mode": "Required", "maxWorkers": 2},
            "runtime": {"entrypoint": "train:main", "collective": "gloo"},
            "expectedRuntime": "1h",
            "maxRuntime": "2h30m",
        }
    )
    found = to_core.to_job(to_core.parse_job(document), excluded_nodes=frozenset({"node-9"}), reserve_mib=100)
    assert found == core.Job(
        key="team-a/mnist",
        uid="u-1",
        namespace="team-a",
        queue="vision",
        user="alice@example.com",
        priority=5,
        workers_min=2,
        workers_max=8,
        gpu=core.GpuRequest(
            count=1,
            memory_mib=16896,
            compute_milli=250,
            classes=("H200", "H100"),
            zones=("eu-1a",),
            sharing=core.Sharing.ANY,
        ),
        cpu_milli=1500,
        memory_mib=1054,
        scratch_mib=20992,
        chief_cpu_milli=6000,
        chief_memory_mib=1054,
        chief_scratch_mib=954,
        added_memory_mib=100,
        topology=core.Topology("rack", core.TopologyMode.REQUIRED),
        spread=core.Spread("node", core.TopologyMode.REQUIRED, 2),
        distinct_gpus=False,
        submitted_at=CREATED_AT,
        expected_runtime_s=3600,
        max_runtime_s=9000,
        excluded_nodes=frozenset({"node-9"}),
    )


@pytest.mark.parametrize(
    ("named", "want"),
    [
        pytest.param("alice@example.com", "alice@example.com", id="a person"),
        pytest.param("", "(nobody named, namespace team-a)", id="nobody: one user for each namespace"),
        pytest.param("system:serviceaccount:team-a:ci", "system:serviceaccount:team-a:*", id="a ServiceAccount"),
        pytest.param(
            "system:serviceaccount:team-a:ci-2", "system:serviceaccount:team-a:*", id="another: the same user"
        ),
        pytest.param("system:serviceaccount:team-a:*", "system:serviceaccount:team-a:*", id="in its normal form"),
        pytest.param("system:serviceaccount:x", "system:serviceaccount:x:*", id="cut short"),
        pytest.param("eve\x1b[31m\u202e", "eve?[31m?", id="what moves a terminal's cursor, or turns text round"),
        pytest.param(
            "a" * 200_000,
            f"{'a' * 128}… (2287d207f24a941f)",
            id="very long: told apart by what it is in whole",
        ),
    ],
)
def test_a_job_counts_against_one_printable_user(named: str, want: str) -> None:
    assert to_core.user_of(named, "team-a") == want


@pytest.mark.parametrize(
    ("gpu", "want"),
    [
        ({"count": 8}, core.GpuRequest(count=8)),
        ({"memoryFraction": "0.4"}, core.GpuRequest(memory_milli=400)),
        ({"memoryFraction": "0.5", "computeFraction": "0.2"}, core.GpuRequest(memory_milli=500, compute_milli=200)),
        ({"memory": "1Mi", "sharing": "Never"}, core.GpuRequest(memory_mib=1, sharing=core.Sharing.NEVER)),
    ],
    ids=str,
)
def test_what_is_asked_of_gpus_stays_exact(gpu: dict[str, Any], want: core.GpuRequest) -> None:
    assert to_core.to_job(to_core.parse_job(job_document({"gpu": gpu}))).gpu == want


PLACEMENT = core.Placement(
    nodes=(
        core.NodePlacement(
            node="node-1",
            ranks=(
                core.RankPlacement(rank=0, gpus=(core.GrantedGpu(uuid="GPU-1", memory_mib=32768, compute_milli=400),)),
            ),
        ),
    )
)


@pytest.mark.parametrize(
    ("phase", "holds", "evicting"),
    [
        ("Pending", False, False),
        ("Starting", True, False),
        ("Running", True, False),
        ("Evicting", True, True),
        ("Suspended", False, False),
        ("Succeeded", False, False),
        ("Failed", False, False),
    ],
)
def test_only_the_phases_that_hold_gpus_bring_a_placement(phase: str, holds: bool, evicting: bool) -> None:
    placement = from_placement(
        PLACEMENT, admitted_at=CREATED_AT + 9, backfilled_until=CREATED_AT + 99, isolation=Isolation.NONE
    )
    status = {"phase": phase, "placement": placement.to_document(), "progress": {"lastCheckpoint": {"at": CREATED}}}
    job = to_core.to_job(to_core.parse_job(job_document(status=status)))
    assert (job.placement, job.admitted_at, job.backfilled_until, job.evicting, job.last_checkpoint_at) == (
        PLACEMENT if holds else None,
        CREATED_AT + 9 if holds else None,
        CREATED_AT + 99 if holds else None,
        evicting,
        CREATED_AT,
    )


@pytest.mark.parametrize(
    ("phase", "truth", "reason", "idle"),
    [
        ("Running", "True", "GPUIdle", True),
        ("Running", "False", "GPUIdle", False),
        ("Running", "True", "LoaderBound", False),
        ("Starting", "True", "GPUIdle", False),
        ("Pending", "True", "GPUIdle", False),
    ],
)
def test_a_job_that_was_measured_to_compute_nothing_is_idle_while_it_runs(
    phase: str, truth: str, reason: str, idle: bool
) -> None:
    placement = from_placement(PLACEMENT, admitted_at=CREATED_AT, isolation=Isolation.NONE)
    low = {"type": "LowUse", "status": truth, "reason": reason, "lastTransitionTime": CREATED}
    status = {"phase": phase, "placement": placement.to_document(), "conditions": [low]}
    assert to_core.to_job(to_core.parse_job(job_document(status=status))).idle is idle


@pytest.mark.parametrize(
    ("phase", "suggested", "held_mib", "want"),
    [
        pytest.param("Pending", None, None, 16_384, id="nothing was measured"),
        pytest.param("Pending", 6_144, None, 6_144, id="less was measured to do"),
        pytest.param("Pending", 20_480, None, 16_384, id="never more than it asks for"),
        pytest.param("Pending", 0, None, 16_384, id="nothing is no suggestion"),
        pytest.param("Running", 6_144, 16_384, 16_384, id="while it holds, what it holds"),
        pytest.param("Running", None, 6_144, 6_144, id="what it was made smaller to"),
        pytest.param("Running", None, 81_920, 16_384, id="a GPU that is given whole"),
    ],
)
def test_a_share_that_may_be_made_smaller_asks_for_what_was_measured(
    phase: str, suggested: int | None, held_mib: int | None, want: int
) -> None:
    status: dict[str, Any] = {"phase": phase}
    if suggested is not None:
        status["suggestion"] = {"memoryMiB": suggested, "at": CREATED}
    if held_mib is not None:
        grant = core.GrantedGpu(uuid="GPU-a", memory_mib=held_mib, compute_milli=200)
        rank = core.RankPlacement(rank=0, gpus=(grant,))
        held = core.Placement(nodes=(core.NodePlacement(node="n1", ranks=(rank,)),))
        status["placement"] = from_placement(held, admitted_at=CREATED_AT, isolation=Isolation.NONE).to_document()
    gpu = {"memory": "16Gi", "computeFraction": "0.2"}
    fixed = to_core.to_job(to_core.parse_job(job_document({"gpu": gpu}, status=status)))
    sized = to_core.to_job(to_core.parse_job(job_document({"gpu": gpu | {"autoSize": True}}, status=status)))
    assert (fixed.gpu.memory_mib, fixed.asked_memory_mib) == (16_384, None)
    assert (sized.gpu.memory_mib, sized.asked_memory_mib) == (want, 16_384)
    assert sized.gpu.compute_milli == 200


def test_a_priority_class_gives_its_number_or_a_refusal_that_names_it() -> None:
    job = to_core.parse_job(job_document({"priorityClassName": "batch-high"}))
    assert to_core.to_job(job, priority_classes={"batch-high": 900}).priority == 900
    with pytest.raises(DocumentError) as refusal:
        to_core.to_job(job, priority_classes={"batch-low": 1})
    assert str(refusal.value) == (
        "TrainingJob mnist: spec.priorityClassName: there is no PriorityClass 'batch-high' in this cluster"
    )


def test_shares_of_several_gpus_are_so_many_of_the_same() -> None:
    spec = {"gpu": {"count": 2, "memoryFraction": "0.5"}, "workers": 2}
    assert to_core.to_job(to_core.parse_job(job_document(spec))).gpu == core.GpuRequest(count=2, memory_milli=500)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(DocumentError) as refusal:
        to_core.parse_job(job_document({"workers": 0, "gpu": {}, "retries": "3"}))
    assert [(problem.field, problem.message) for problem in refusal.value.problems] == [
        ("spec.workers", "must be at least 1, not 0"),
        (
            "spec.gpu",
            "gpu takes count, or one of memory and memoryFraction, or one of these with count; for whole GPUs write"
            ' `spec.gpu: {count: 1}`, for a share `spec.gpu: {memoryFraction: "0.5"}` or `spec.gpu: {memory: "16Gi"}`,'
            ' for shares of two GPUs `spec.gpu: {count: 2, memoryFraction: "0.5"}`',
        ),
        ("spec.retries", 'must be a whole number, not "3"'),
    ]


def test_a_queue_with_everything_becomes_a_core_queue() -> None:
    document = queue_document(
        {
            "parent": "research",
            "namespaces": ["team-a", "not-yet-there"],
            "namespaceSelector": {
                "matchLabels": {"team": "vision"},
                "matchExpressions": [{"key": "stage", "operator": "NotIn", "values": ["prod"]}],
            },
            "weight": 3,
            "quotas": [
                {"guaranteed": "1.5", "limit": 4, "lendable": "0.5"},
                {"gpuClass": "H100", "zone": "eu-1a", "limit": "0.25", "memoryLimit": "1610612735"},
            ],
            "protectedRuntime": "1h30m",
            "users": {"limit": "0.5"},
            "budget": {"gpuHours": "1.5", "period": "Day"},
            "consolidation": "Allowed",
            "maxPriority": 50,
            "minPriority": -5,
            "maxPending": {"jobs": 20, "gpus": "2.5"},
        }
    )
    namespaces = {
        "team-a": {},
        "speech": {"team": "speech"},
        "vision-dev": {"team": "vision", "stage": "dev"},
        "vision-prod": {"team": "vision", "stage": "prod"},
        "vision": {"team": "vision"},
    }
    standing = BudgetStanding(spent=400_000, until="soon")
    queue = to_core.to_queue(to_core.parse_queue(document), namespaces=namespaces, standing=standing)
    assert queue == core.TenantQueue(
        name="vision",
        parent="research",
        namespaces=frozenset({"team-a", "not-yet-there", "vision-dev", "vision"}),
        weight=3,
        quotas=(
            core.Quota(guaranteed=1500, limit=4000, lendable=500),
            core.Quota(gpu_class="H100", zone="eu-1a", limit=250, memory_limit_mib=1535),
        ),
        user_limit=500,
        budget_left=5_000_000,
        budget=5_400_000,
        budget_until="soon",
        consolidation=True,
        protected_runtime_s=5_400,
        max_priority=50,
        min_priority=-5,
        pending=core.PendingBounds(jobs=20, workers=100_000, milli=2_500),
    )


def test_of_labelled_namespaces_only_those_that_are_a_tenants_are_served() -> None:
    document = queue_document({"namespaces": ["team-a", "bare", "false", "absent"]})
    namespaces = {
        "team-a": {"cotenant.dev/tenant": "true"},
        "bare": {},
        "false": {"cotenant.dev/tenant": "false"},
    }
    queue = to_core.to_queue(to_core.parse_queue(document), namespaces=namespaces, labelled_only=True)
    assert (queue.namespaces, queue.unlabelled) == (
        frozenset({"team-a"}),
        frozenset({"bare", "false", "absent"}),
    )


USUAL = core.PendingBounds(jobs=1_000, workers=100_000)
"""Where a queue says nothing of jobs that wait."""


def test_the_half_life_of_a_tree_is_read_in_seconds() -> None:
    document = queue_document({"fairShare": {"halfLife": "6h30m"}})
    queue = to_core.to_queue(to_core.parse_queue(document), namespaces={})
    assert queue == core.TenantQueue(name="vision", half_life_s=23_400, pending=USUAL)


def test_a_budget_that_is_overspent_has_nothing_left() -> None:
    document = queue_document({"budget": {"gpuHours": 1, "period": "Day"}})
    queue = to_core.to_queue(to_core.parse_queue(document), namespaces={}, standing=BudgetStanding(spent=10**9))
    assert queue == core.TenantQueue(name="vision", budget_left=0, budget=3_600_000, pending=USUAL)


def test_a_budget_in_money_is_counted_in_micro_units_and_grows_by_what_was_left_over() -> None:
    document = queue_document({"budget": {"money": "2.5", "period": "Day", "carryOver": "Unused"}})
    standing = BudgetStanding(money_spent=600_000, money_carried=100_000, currency="EUR", until="soon")
    queue = to_core.to_queue(to_core.parse_queue(document), namespaces={}, standing=standing)
    assert queue == core.TenantQueue(
        name="vision", money_left=2_000_000, money=2_600_000, currency="EUR", budget_until="soon", pending=USUAL
    )
