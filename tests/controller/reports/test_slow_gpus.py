"""Slow GPUs that a job has found, and what is reported of them."""

from datetime import UTC, datetime

import pytest

from cotenant.api.conversion.placements import from_placement
from cotenant.api.conversion.to_core import parse_gpunode
from cotenant.api.resources.gpunodes import GPUNode
from cotenant.api.resources.placement_status import Isolation
from cotenant.contract import Progress
from cotenant.controller.client.fence import Fence
from cotenant.controller.client.kube import GPU_NODES
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import JobMemories
from cotenant.controller.informers.job_record import JobRecord, read_job
from cotenant.controller.reports.slow_gpu_reports import COUNTS_S
from cotenant.controller.reports.slow_gpus import Finding, SlowGpus, findings_of, slow_gpu_notice
from tests.controller.builders import job_document, placement_on
from tests.support.api_faults import Fault
from tests.support.fake_kube import FakeKube
from tests.support.well_formed import well_formed


def record(*, queue: str = "red", **metadata: str) -> JobRecord:
    placement = from_placement(placement_on(("n1", 1), ("n2", 1)), admitted_at=0.0, isolation=Isolation.NONE)
    document = job_document(status={"phase": "Running", "placement": placement.to_document()})
    document["metadata"].update(metadata)
    document["spec"]["queue"] = queue
    return read_job(document)


def nodes(*, simulated: bool) -> dict[str, GPUNode]:
    def node(name: str) -> GPUNode:
        status = {"simulated": simulated, "gpus": []}
        metadata = {"name": name, "uid": name}
        document = {"apiVersion": "cotenant.dev/v1beta1", "kind": "GPUNode", "metadata": metadata, "status": status}
        return parse_gpunode(document)

    return {name: node(name) for name in ("n1", "n2")}


NOW = datetime(2026, 11, 22, 14, tzinfo=UTC).timestamp()
SLOW = {"1": (80.0, 20.0)}
FOUND = [Finding("n2", "GPU-n2-0", "red/train: rank 1 needed 80.0 ms for what its other ranks did in 20.0 ms")]


@pytest.mark.parametrize(
    ("checked_on", "simulated", "sees", "want"),
    [
        pytest.param("cuda", False, "GPU-n2-0", FOUND, id="on the GPU"),
        pytest.param("cpu", False, "GPU-n2-0", [], id="on the CPU: nothing about the GPU"),
        pytest.param("cpu", True, "GPU-n2-0", FOUND, id="on the CPU that plays a GPU"),
        pytest.param("cuda", False, "GPU-of-another-job", [], id="a GPU that the job does not hold"),
    ],
)
def test_a_slow_rank_makes_its_own_gpu_suspect_and_no_other(
    checked_on: str, simulated: bool, sees: str, want: list[Finding]
) -> None:
    said = Progress(state="training", slow_ranks=SLOW, checked_on=checked_on, observed_gpus={"1": [sees]})
    assert (
        list(
            findings_of(record(), well_formed(Progress.from_json(said.to_json(), ranks=8)), nodes(simulated=simulated))
        )
        == want
    )


def test_an_admission_that_hands_out_a_suspect_gpu_says_which_and_why() -> None:
    seen = nodes(simulated=False)
    slow = {"uuid": "GPU-n2-0", "index": 0, "class": "H100", "memoryMiB": 81920, "health": f"Slow: {FOUND[0].text}"}
    document = seen["n2"].to_document() | {"status": {"gpus": [slow, slow | {"uuid": "GPU-n2-1"}]}}
    seen["n2"] = parse_gpunode(document)

    assert slow_gpu_notice(placement_on(("n1", 1)), seen) == ""
    assert slow_gpu_notice(placement_on(("n1", 1), ("n2", 1)), seen) == (
        f"; no place as good was free without a GPU that is suspect: GPU-n2-0 on n2 (Slow: {FOUND[0].text})"
    )


PROGRESS = Progress(state="training", slow_ranks=SLOW, checked_on="cuda", observed_gpus={"1": ["GPU-n2-0"]})


def reporter(kube: FakeKube) -> SlowGpus:
    cache = ObjectCache()
    for name, seen in nodes(simulated=False).items():
        kube.put(GPU_NODES, {**seen.to_document(), "metadata": {"name": name}})
    kube.deliver(cache.put)
    return SlowGpus(kube, cache, JobMemories(), clock=lambda: NOW)


def annotations(kube: FakeKube) -> dict[str, str]:
    found = kube.stored(GPU_NODES, "n2")
    return dict((found or {})["metadata"].get("annotations", {}))


NOTE = {"slow-reports.cotenant.dev/GPU-n2-0": "red/red=2026-11-22T14:00:00Z"}


async def test_one_tenants_finding_is_a_note_and_another_tenants_makes_the_gpu_suspect() -> None:
    kube = FakeKube()
    slow_gpus = reporter(kube)
    await slow_gpus.report(record(), PROGRESS)
    alone = annotations(kube)
    await slow_gpus.report(record(queue="blue", namespace="blue", uid="uid-blue"), PROGRESS)
    said = "jobs of 2 queues found it far slower than their other GPUs, last 2026-11-22T14:00:00Z"
    assert alone == NOTE
    assert annotations(kube)["suspect.cotenant.dev/GPU-n2-0"] == said


async def test_what_was_found_fades() -> None:
    kube = FakeKube()
    slow_gpus = reporter(kube)
    for queue in ("red", "blue"):
        await slow_gpus.report(record(queue=queue, namespace=queue, uid=f"uid-{queue}"), PROGRESS)
    await slow_gpus.fade()
    assert len(annotations(kube)) == 2
    slow_gpus.clock = lambda: NOW + COUNTS_S
    await slow_gpus.fade()
    assert annotations(kube) == {}


async def test_a_finding_is_reported_once_so_that_what_was_lifted_stays_lifted() -> None:
    kube = FakeKube()
    slow_gpus = reporter(kube)
    await slow_gpus.report(record(), PROGRESS)
    reported = annotations(kube)
    kube.put(GPU_NODES, {"metadata": {"name": "n2"}})
    await slow_gpus.report(record(), PROGRESS)
    assert (reported, annotations(kube)) == (NOTE, {})


async def test_a_report_that_did_not_arrive_is_made_again(caplog: pytest.LogCaptureFixture) -> None:
    kube = FakeKube(Fault(call="PATCH gpunodes/n2", lost="request"))
    slow_gpus = reporter(kube)
    for _ in range(2):
        await slow_gpus.report(record(), PROGRESS)
    assert annotations(kube) == NOTE
    assert "the request was lost" in caplog.messages[0]


async def test_a_replica_that_does_not_lead_reports_nothing_and_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    kube = FakeKube(before_write=Fence(lambda: False).check)
    await reporter(kube).report(record(), PROGRESS)
    assert (annotations(kube), caplog.messages) == ({}, [])
