"""The parts that pods are made from, taken from a TrainingJob. Pure."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant import contract
from cotenant.api.conversion.placements import from_placement, to_placement
from cotenant.api.conversion.to_core import parse_job, to_job
from cotenant.api.resources.placement_status import Isolation
from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.controller.manifests.attempt import CpuPod, EvaluatorProgram, GpuFacts, HostAmounts
from cotenant.controller.manifests.base_pod import contract_of
from cotenant.controller.manifests.from_job import attempt_of, program_of
from cotenant.controller.manifests.worker_pod import pod
from tests.controller.builders import job_document, placement_on
from tests.controller.manifests.expected import REAL, SETTINGS


def test_what_a_job_says_of_its_servers_reaches_their_pods() -> None:
    chosen = {"servers": 3, "update": "Asynchronous", "resources": {"cpu": "2", "memory": "8Gi"}}
    runtime = {"entrypoint": "a:b", "strategy": "ParameterServer", "parameterServer": chosen}
    job = parse_job(job_document(runtime=runtime))
    status = from_placement(placement_on(("n1", 2)), admitted_at=0, isolation=Isolation.NONE, servers=3)
    made = attempt_of(job, TrainingJobStatus(attempts=1, placement=status), to_placement(status), {}, SETTINGS)
    assert (made.servers, made.program.servers) == (3, CpuPod(cpu_milli=2000, memory_mib=8192))
    assert contract_of(made, 0, SETTINGS).platform == {
        "parameterServer": {"update": "Asynchronous"},
        "cpuMilli": 1000,
        "askedScratchMib": 0,
        "scratchMib": 51200,
    }


@pytest.mark.parametrize(
    ("chief", "made"),
    [
        (None, None),
        ({}, HostAmounts(cpu_milli=2000, memory_mib=8192, scratch_mib=1024)),
        (
            {"resources": {"cpu": 8, "scratch": "5Gi"}},
            HostAmounts(cpu_milli=8000, memory_mib=8192, scratch_mib=5120),
        ),
    ],
    ids=["none", "by name alone", "with amounts"],
)
def test_what_a_job_says_of_its_chief_reaches_the_pod_of_rank_0(
    chief: dict[str, Any] | None, made: HostAmounts | None
) -> None:
    spec = {"resources": {"cpu": 2, "memory": "8Gi", "scratch": "1Gi"}} | ({} if chief is None else {"chief": chief})
    job = parse_job(job_document(**spec))
    found = attempt_of(job, TrainingJobStatus(attempts=1), placement_on(("n1", 2), ("n2", 1)), {}, SETTINGS)
    assert (found.each.cpu_milli, found.chief) == (2000, made)
    head, other = found.amounts_on(0), found.amounts_on(1)
    assert head.cpu_milli == 2000 + (made.cpu_milli if made else 2000)
    assert other == HostAmounts(cpu_milli=2000, memory_mib=8192, scratch_mib=1024)
    assert contract_of(found, 0, SETTINGS).platform.get("chief", False) is (made is not None)
    counted = [to_job(job).host_amounts(node.ranks) for node in found.placement.nodes]
    assert counted == [(one.cpu_milli, one.memory_mib, one.scratch_mib) for one in (head, other)]
    assert contract_of(found, 0, SETTINGS).platform["askedScratchMib"] == head.scratch_mib


DEFAULT = CpuPod(cpu_milli=1000, memory_mib=4096)
BIG = CpuPod(cpu_milli=2000, memory_mib=8192, node_selector={"pool": "cpu"}, tolerate_gpu_taints=True)


@pytest.mark.parametrize(
    ("runtime", "evaluator", "made"),
    [
        ({"entrypoint": "a:b"}, {}, EvaluatorProgram(mode="entrypoint", entrypoint="a:b", pod=DEFAULT)),
        (
            {"command": ["python", "a.py"], "args": ["--lr", "1"]},
            {},
            EvaluatorProgram(mode="command", command=("python", "a.py", "--lr", "1"), pod=DEFAULT),
        ),
        (
            {"command": ["python", "a.py"], "rayTrain": True},
            {"command": ["python", "e.py"]},
            EvaluatorProgram(mode="command", command=("python", "e.py"), pod=DEFAULT),
        ),
        (
            {"command": ["python", "a.py"]},
            {
                "entrypoint": "e:main",
                "resources": {"cpu": 2, "memory": "8Gi"},
                "nodeSelector": {"pool": "cpu"},
                "tolerateGpuTaints": True,
            },
            EvaluatorProgram(mode="entrypoint", entrypoint="e:main", pod=BIG),
        ),
    ],
    ids=["the job's function", "the job's command", "a command of its own", "a function of its own"],
)
def test_an_evaluator_runs_its_own_program_or_the_jobs(
    runtime: dict[str, Any], evaluator: dict[str, Any], made: EvaluatorProgram
) -> None:
    assert program_of(parse_job(job_document(runtime=runtime, evaluator=evaluator)), SETTINGS).evaluator == made
    assert program_of(parse_job(job_document(runtime=runtime)), SETTINGS).evaluator is None


def test_the_administrators_limit_is_the_grace_period_of_pod_and_program() -> None:
    job = parse_job(job_document(gracePeriod="24h"))
    status = from_placement(placement_on(("n1", 1)), admitted_at=0, isolation=Isolation.NONE)
    bounded = SETTINGS.model_copy(update={"max_grace_period_s": 90})
    made = attempt_of(job, TrainingJobStatus(attempts=1, placement=status), to_placement(status), {}, bounded)
    assert pod(made, 0, bounded, REAL).pod["spec"]["terminationGracePeriodSeconds"] == 90
    assert contract_of(made, 0, bounded).grace_s == 90


def test_a_document_with_everything_reaches_the_pod() -> None:
    document = job_document(
        runtime={
            "image": "example.com/mine:2",
            "command": ["python", "train.py"],
            "args": ["--epochs", "3"],
            "code": {"configMap": {"name": "code"}},
            "env": [
                {"name": "A", "value": "1"},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            ],
            "volumes": [
                {"name": "data", "mountPath": "/data", "readOnly": True, "persistentVolumeClaim": {"claimName": "d"}}
            ],
            "precision": "bf16",
            "gpuVisibility": "Pod",
            "gpuProcesses": 4,
            "hangTimeout": "20m",
            "stallTimeout": "1h",
        },
        checkpoint={"volume": {"persistentVolumeClaim": {"claimName": "ckpt"}}, "interval": "5m"},
        gracePeriod="90s",
        retries=3,
    )
    job = parse_job(document)
    status = from_placement(placement_on(("n1", 1)), admitted_at=0, isolation=Isolation.NONE)
    made = attempt_of(
        job,
        TrainingJobStatus(attempts=1, placement=status),
        to_placement(status),
        {"GPU-n1-0": GpuFacts(memory_mib=81_920, simulated=False)},
        SETTINGS,
    )
    spec = pod(made, 0, SETTINGS, REAL).pod["spec"]
    told = contract_of(made, 0, SETTINGS)
    assert (told.mode, told.command, told.precision, told.checkpoint, told.grace_s) == (
        "command",
        ("python", "train.py", "--epochs", "3"),
        "bf16",
        contract.CheckpointSpec("/checkpoints/train", 300),
        90,
    )
    assert told.platform == {
        "cpuMilli": 1000,
        "askedScratchMib": 0,
        "scratchMib": 51200,
        "gpuVisibility": "Pod",
        "gpuProcesses": 4,
        "hangTimeoutSeconds": 1200,
        "stallTimeoutSeconds": 3600,
        "retries": 3,
    }
    assert spec["containers"][0]["image"] == "example.com/mine:2"
    assert spec["containers"][0]["env"][:2] == [
        {"name": "A", "value": "1"},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ]
    assert spec["volumes"][2:] == [
        {"name": "cotenant-code", "configMap": {"name": "code"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "d", "readOnly": True}},
        {"name": "cotenant-checkpoints", "persistentVolumeClaim": {"claimName": "ckpt"}},
    ]
    assert spec["containers"][0]["volumeMounts"][2:] == [
        {"name": "cotenant-code", "mountPath": "/workspace", "readOnly": True},
        {"name": "data", "mountPath": "/data", "readOnly": True},
        {"name": "cotenant-checkpoints", "mountPath": "/checkpoints"},
    ]


def test_data_lies_in_a_volume_of_the_job_or_in_scratch_space_of_its_own() -> None:
    cache = {"name": "cache", "mountPath": "/cache", "persistentVolumeClaim": {"claimName": "c"}}
    data = [
        {"from": "s3://bucket/images", "to": "/cache/images", "sizeLimit": "2Gi"},
        {"from": "https://host/texts.tar", "to": "/cached"},
    ]
    job = parse_job(job_document(runtime={"entrypoint": "a:b", "volumes": [cache]}, data=data))
    status = from_placement(placement_on(("n1", 1)), admitted_at=0, isolation=Isolation.NONE)
    made = attempt_of(job, TrainingJobStatus(attempts=1, placement=status), to_placement(status), {}, SETTINGS)
    spec = pod(made, 0, SETTINGS, REAL).pod["spec"]
    assert contract_of(made, 0, SETTINGS).data == (
        contract.DataSource("s3://bucket/images", "/cache/images", 2 << 30),
        contract.DataSource("https://host/texts.tar", "/cached", 0),
    )
    assert [volume for volume in spec["volumes"] if "data" in volume["name"]] == [
        {"name": "cotenant-data-1", "emptyDir": {}}
    ]
    mounts = [mount for mount in spec["containers"][0]["volumeMounts"] if mount["mountPath"].startswith("/cache")]
    assert mounts == [{"name": "cache", "mountPath": "/cache"}, {"name": "cotenant-data-1", "mountPath": "/cached"}]
