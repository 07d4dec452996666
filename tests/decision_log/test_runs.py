"""Records of runs: out of the document of a job, with what was seen of it; what an asker may read of it."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.api.conversion.to_core import parse_job
from cotenant.decision_log.efficiency import advice
from cotenant.decision_log.measured_use import MeasuredUse
from cotenant.decision_log.runs import RunRecord, has_ended, run_of
from cotenant.decision_log.timelines import Happening, Timeline

STATUS: dict[str, Any] = {
    "phase": "Failed",
    "reason": "Failed",
    "message": "rank 1 failed",
    "startedAt": "2026-01-01T00:01:00Z",
    "finishedAt": "2026-01-01T01:01:00Z",
    "attempts": 2,
    "failures": 1,
    "restarts": 1,
    "usage": {"gpuSeconds": 2_880, "gpuMilliseconds": 2_880_500, "runSeconds": 3_600},
    "progress": {"step": 120, "of": 400, "memoryPeakMiB": {"0": 900, "1": 1_100}},
    "lastExit": {"code": 1, "reason": "Error", "rank": 1, "tail": [f"line {n}" for n in range(60)]},
    "results": {"loss": 0.3},
}


def job(status: dict[str, Any] | None = None, **spec: Any) -> Any:
    return parse_job(
        {
            "apiVersion": "cotenant.dev/v1beta1",
            "kind": "TrainingJob",
            "metadata": {
                "name": "train",
                "namespace": "red",
                "uid": "u1",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "annotations": {"cotenant.dev/user": "ann"},
            },
            "spec": {
                "queue": "q",
                "workers": 2,
                "gpu": {"memoryFraction": "0.4"},
                "runtime": {"entrypoint": "train:main"},
                **spec,
            },
            "status": status or {},
        }
    )


def test_a_finished_job_is_recorded_with_all_that_its_status_had() -> None:
    found = run_of(job(STATUS, expectedRuntime="6h"))
    assert found == RunRecord(
        namespace="red",
        name="train",
        uid="u1",
        queue="q",
        user="ann",
        outcome="Failed",
        reason="Failed",
        message="rank 1 failed",
        created_at="2026-01-01T00:00:00Z",
        started_at="2026-01-01T00:01:00Z",
        finished_at="2026-01-01T01:01:00Z",
        workers=2,
        gpu="0.4",
        gpu_milliseconds=2_880_500,
        run_seconds=3_600,
        expected_seconds=21_600,
        attempts=2,
        failures=1,
        restarts=1,
        steps=120,
        steps_of=400,
        exit_code=1,
        exit_reason="Error",
        exit_rank=1,
        tail=tuple(f"line {n}" for n in range(20, 60)),
        results={"loss": 0.3},
        memory_peak_mib=1_100,
    )


@pytest.mark.parametrize(
    ("phase", "deleted_at", "outcome", "finished_at"),
    [
        ("Succeeded", "", "Succeeded", ""),
        ("Succeeded", "2026-01-02T00:00:00Z", "Succeeded", "2026-01-02T00:00:00Z"),
        ("Running", "2026-01-02T00:00:00Z", "Deleted", "2026-01-02T00:00:00Z"),
        ("Running", "", "Running", ""),
    ],
)
def test_who_is_deleted_before_the_end_has_not_succeeded(
    phase: str, deleted_at: str, outcome: str, finished_at: str
) -> None:
    found = run_of(job({"phase": phase}), deleted_at=deleted_at)
    assert (found.outcome, found.finished_at, found.is_over) == (outcome, finished_at, outcome != "Running")


@pytest.mark.parametrize(("gpu", "shown"), [({"count": 2}, "2"), ({"memory": "16Gi"}, "16Gi")])
def test_gpus_are_as_the_document_has_them(gpu: dict[str, Any], shown: str) -> None:
    assert run_of(job(gpu=gpu)).gpu == shown


def test_a_job_has_ended_when_nothing_of_it_changes_any_more() -> None:
    assert [has_ended(job({"phase": phase}).status) for phase in ("Running", "Evicting", "Succeeded", "Failed")] == [
        False,
        False,
        True,
        True,
    ]


def test_jobs_that_the_asker_may_not_read_have_no_name() -> None:
    happenings = (
        Happening(at=1.0, what="Evicted", message="for blue/big, not red/x", mentions=("blue", "red")),
        Happening(at=2.0, what="Waits", message="blue/big is before", mentions=("blue",)),
    )
    run = run_of(job({"message": "it left for blue/big"}), timeline=Timeline(happenings=happenings))
    seen = run.as_seen(lambda namespace: namespace == "red")
    assert [one.message for one in seen.timeline.happenings] == [
        "for a job of another tenant, not red/x",
        "a job of another tenant is before",
    ]
    assert seen.message == "it left for a job of another tenant"
    assert run.as_seen(lambda _: True) == run


# -- advice ------------------------------------------------------------------------------------------------------------

USED_WELL = MeasuredUse(
    samples=100, busy_samples=100, busy_percent_sum=9_000, memory_peak_mib=30_000, memory_mib_sum=1, held_mib=32_768
)


def run(use: MeasuredUse = USED_WELL, **changes: Any) -> RunRecord:
    values: dict[str, Any] = {"outcome": "Succeeded", "run_seconds": 7_200, "expected_seconds": 8_000} | changes
    return RunRecord(namespace="red", name="a", uid="u", queue="q", use=use, **values)


def used(**changes: int) -> MeasuredUse:
    names = (*MeasuredUse.__slots__,)
    return MeasuredUse(**{name: getattr(USED_WELL, name) for name in names} | changes)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (run(), []),
        (run(used(memory_peak_mib=8_192)), ["`gpu.memory: 10Gi`"]),
        (run(used(memory_peak_mib=8_192, samples=7)), []),
        (run(used(memory_peak_mib=0)), []),
        (run(used(busy_percent_sum=3_000)), ["A kernel ran in 30 %"]),
        (run(used(busy_percent_sum=3_000, shared=True)), []),
        (run(used(busy_percent_sum=3_000, idle_samples=60)), ["did nothing in 60 %"]),
        (run(expected_seconds=None), ["`expectedRuntime: 2h30m`"]),
        (run(expected_seconds=86_400), ["It declared 24h and ran 2h: `expectedRuntime: 2h30m`"]),
        (run(expected_seconds=None, outcome="Failed"), []),
        (run(restarts=1), ["started again once"]),
        (run(restarts=3), ["started again 3 times"]),
        (run(restarts=3, checkpoints=True), []),
    ],
    ids=[
        "used well", "little memory", "few samples", "memory not seen", "little compute", "shared", "idle",
        "undeclared", "declared too long", "failed", "once", "three times", "with checkpoints",
    ],
)  # fmt: skip
def test_advice_names_the_field_and_the_value(found: RunRecord, words: list[str]) -> None:
    sentences = list(advice(found))
    assert len(sentences) == len(words)
    assert all(word in sentence for word, sentence in zip(words, sentences, strict=True)), sentences
