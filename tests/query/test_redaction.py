"""What of other tenants' jobs an answer shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.core.model.objects import GpuRequest, GrantedGpu, Job, NodePlacement, Placement, RankPlacement
from cotenant.query.redaction import JobMention, mentioned, redacted, size_of
from tests.support.clusters import make_job, make_node, make_placement


def sees_red(namespace: str) -> bool:
    return namespace == "red"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("GPUs are reserved for blue/secret-name, ahead of this job",
         "GPUs are reserved for a job of another tenant, ahead of this job"),
        ("GPUs are reserved for red/own, blue/a.b, ahead",
         "GPUs are reserved for red/own, a job of another tenant, ahead"),
        ("1/2 GPUs of nvidia.com/gpu", "1/2 GPUs of nvidia.com/gpu"),
        ("blue is full", "blue is full"),
    ],
)  # fmt: skip
def test_names_of_jobs_that_the_asker_may_not_read_are_taken_out(text: str, shown: str) -> None:
    assert redacted(text, {"red", "blue"}, sees_red) == shown


def test_a_text_gives_the_namespaces_of_the_jobs_it_names() -> None:
    assert mentioned("for red/a, blue/b and not/ours", {"red", "blue", "green"}) == {"red", "blue"}


def test_a_mention_keeps_its_size_and_its_rule() -> None:
    other = JobMention(job="blue/a", namespace="blue", queue="team-blue", asks="4 GPUs of H100", why="it is older")
    hidden = JobMention(job="", namespace="", queue="", asks="4 GPUs of H100", why="it is older")
    assert (other.as_seen(sees_red), other.as_seen(lambda _: True)) == (hidden, other)


@pytest.mark.parametrize(
    ("job", "size"),
    [
        (make_job("a", gpus=2, workers=4), "8 GPUs"),
        (make_job("a", gpus=1, classes=("H100", "A100")), "1 GPU of H100 or A100"),
        (make_job("a", milli=400, workers=2), "0.8 GPU"),
        (make_job("a", gpu=GpuRequest(memory_mib=4096)), "1 × 4096 MiB of a GPU"),
        (make_job("a", gpu=GpuRequest(count=2, memory_milli=400), workers=2), "1.6 GPUs"),
        (make_job("a", gpu=GpuRequest(count=2, memory_mib=4096), workers=2), "4 × 4096 MiB of a GPU"),
        (make_job("a", workers=2, placement=make_placement(("n1", [[0], [1]]))), "2 GPUs of H100"),
    ],
    ids=["a gang", "classes", "shares", "memory", "shares of two", "memory of two", "held"],
)
def test_the_size_of_a_job_is_what_it_holds_or_asks_for(job: Job, size: str) -> None:
    assert size_of(job, {gpu.uuid: gpu for gpu in make_node("n1", gpus=2).gpus}) == size


def test_a_share_is_as_large_as_its_larger_part_when_it_is_held_too() -> None:
    (gpu,) = make_node("n1", gpus=1).gpus
    part = GrantedGpu(uuid=gpu.uuid, memory_mib=gpu.memory_mib // 2, compute_milli=100)
    placed = Placement(nodes=(NodePlacement(node="n1", ranks=(RankPlacement(rank=0, gpus=(part,)),)),))
    asks = make_job("a", gpu=GpuRequest(memory_milli=500, compute_milli=100))
    assert size_of(asks, {}) == "0.5 GPU"
    assert size_of(replace(asks, placement=placed), {gpu.uuid: gpu}) == "0.5 GPU of H100"
