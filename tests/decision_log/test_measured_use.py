"""Use of GPUs by job, out of what agents see."""

from __future__ import annotations

from typing import Any

from cotenant.api.resources.gpunodes import GPUNodeStatus
from cotenant.decision_log import measured_use
from cotenant.decision_log.measured_use import MeasuredUse, UseByJob


def holder(job: str, *uuids: str, mib: int = 1_000) -> dict[str, Any]:
    return {
        "podUID": f"pod-{job}",
        "namespace": "red",
        "pod": job,
        "job": job,
        "jobUID": job,
        "attempt": 1,
        "nodeRank": 0,
        "gpus": [{"uuid": uuid, "memoryMiB": mib} for uuid in uuids],
        "since": "2026-01-01T00:00:00Z",
        "evidence": "Pod",
    }


def gpu(uuid: str, busy: int | None, **processes: int) -> dict[str, Any]:
    used = {} if busy is None else {"used": {"memoryMiB": 1, "utilizationPercent": busy}}
    return {
        "uuid": uuid,
        "index": 0,
        "class": "H100",
        "memoryMiB": 80_000,
        "processes": [{"podUID": f"pod-{job}", "memoryMiB": mib} for job, mib in processes.items()],
        **used,
    }


def node(gpus: list[dict[str, Any]], *holders: dict[str, Any]) -> GPUNodeStatus:
    return GPUNodeStatus.model_validate({"gpus": gpus, "holders": list(holders)})


def test_samples_of_the_gpus_that_a_job_holds_are_added_up() -> None:
    use = UseByJob()
    use.sample([node([gpu("g0", 80, a=300), gpu("g1", 2, a=700), gpu("g2", 90)], holder("a", "g0", "g1"))])
    use.sample([node([gpu("g0", 20, a=500)], holder("a", "g0"))])
    assert use["a"] == MeasuredUse(
        samples=3,
        busy_samples=3,
        busy_percent_sum=102,
        idle_samples=1,
        memory_mib_sum=1_500,
        memory_peak_mib=700,
        held_mib=1_000,
    )
    assert (use["a"].busy_percent, use["a"].idle_percent, use["a"].memory_percent) == (34, 33, 70)


def test_a_gpu_of_two_jobs_counts_for_both_and_says_so() -> None:
    use = UseByJob()
    use.sample([node([gpu("g0", 60, a=100, b=200)], holder("a", "g0"), holder("b", "g0"))])
    assert {uid: (use[uid].memory_peak_mib, use[uid].shared) for uid in "ab"} == {"a": (100, True), "b": (200, True)}


def test_where_the_driver_says_nothing_nothing_is_concluded() -> None:
    use = UseByJob()
    use.sample([node([gpu("g0", None)], holder("a", "g0"))])
    assert (use["a"].samples, use["a"].busy_percent, use["a"].idle_percent) == (1, None, None)
    assert use["nobody"].memory_percent is None


def test_of_simulated_gpus_nothing_is_measured_and_that_is_said() -> None:
    use, simulated = UseByJob(), node([gpu("g0", 0)], holder("a", "g0")).model_copy(update={"simulated": True})
    use.sample([simulated])
    assert use["a"] == MeasuredUse(samples=1, held_mib=1_000, simulated=True)
    use.sample([node([gpu("g1", 90)], holder("a", "g1"))])
    assert (use["a"].simulated, use["a"].busy_percent) == (True, 90)


def test_a_job_that_is_over_is_forgotten(monkeypatch: Any) -> None:
    monkeypatch.setattr(measured_use, "JOBS_MAX", 1)
    use = UseByJob()
    for job in "abc":
        use.sample([node([gpu("g0", 1)], holder(job, "g0"))])
    assert [use[job].samples for job in "abc"] == [0, 0, 1]
    assert use.pop("c").samples == 1
    assert use["c"].samples == 0
