"""What is seen of a job besides the decision about it."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant import names
from cotenant.api.conversion import to_core
from cotenant.api.resources.gpunodes import GPUNode
from cotenant.api.resources.trainingjob_status import EvaluatorStatus, TrainingJobStatus, UsageStatus
from cotenant.controller.informers.job_record import JobRecord, read_job
from cotenant.controller.query_api.jobs.observations import observed, roles_of, use_now
from cotenant.core.model.lifecycle import Phase
from tests.controller.builders import T0, UID, admitted, job_document

SERVERS = {
    "strategy": "ParameterServer", "entrypoint": "train:main", "parameterServer": {"servers": 2}
}  # fmt: skip
WAITS = TrainingJobStatus(phase=Phase.PENDING)


def record_of(status: TrainingJobStatus, **spec: Any) -> JobRecord:
    return read_job(job_document(status=status.to_document(), **spec))


@pytest.mark.parametrize(
    ("spec", "status", "roles"),
    [
        ({"workers": 4}, WAITS, {"worker": 4}),
        ({"workers": 4, "minWorkers": 1}, admitted(Phase.RUNNING, ("n1", 2)), {"worker": 2}),
        (
            {"workers": 4, "chief": {"resources": {"memory": "64Gi"}}, "evaluator": {"command": ["python", "e.py"]}},
            admitted(Phase.RUNNING, ("n1", 4)),
            {"chief": 1, "worker": 3, "evaluator": 1},
        ),
        ({"workers": 1, "chief": {"resources": {"memory": "64Gi"}}}, WAITS, {"chief": 1}),
        ({"workers": 2, "runtime": SERVERS}, WAITS, {"worker": 2, "parameter-server": 2}),
    ],
    ids=["ranks alone", "as many as run", "a chief and an evaluator", "a chief alone", "parameter servers"],
)
def test_each_role_is_counted(spec: dict[str, Any], status: TrainingJobStatus, roles: dict[str, int]) -> None:
    assert roles_of(record_of(status, **spec)) == roles


def test_an_attempt_that_does_not_start_says_why() -> None:
    said = {"reason": "FailedMount", "message": "configmap c not found"}
    starting = admitted(Phase.STARTING, ("n1", 1)).model_copy(update=said)
    assert observed(record_of(starting), {}, T0)["attempt"] == {"phase": "Starting", **said}
    assert "attempt" not in observed(record_of(WAITS), {}, T0)


def test_what_it_ran_is_no_time_that_it_waited() -> None:
    ended = WAITS.model_copy(update={"usage": UsageStatus(run_seconds=40)})
    assert observed(record_of(ended), {}, T0 + 100)["waitedSeconds"] == 60
    running = admitted(Phase.RUNNING, ("n1", 1))
    assert observed(record_of(running), {}, T0 + 100)["waitedSeconds"] < 100


def test_what_it_ran_counts_all_attempts() -> None:
    again = admitted(Phase.RUNNING, ("n1", 1), usage=UsageStatus(run_seconds=100))
    assert observed(record_of(again), {}, T0 + 60)["ranSeconds"] == 100 + 50
    assert "ranSeconds" not in observed(record_of(WAITS), {}, T0 + 60)


def test_what_is_left_of_its_longest_run_time_counts_what_it_ran() -> None:
    running = admitted(Phase.RUNNING, ("n1", 1), usage=UsageStatus(run_seconds=100))
    assert observed(record_of(running, maxRuntime="10m"), {}, T0 + 60)["leftSeconds"] == 600 - 100 - 50
    assert "leftSeconds" not in observed(record_of(running), {}, T0)
    assert "leftSeconds" not in observed(record_of(WAITS, maxRuntime="10m"), {}, T0)


def test_the_state_of_an_evaluator_is_that_of_the_attempt_that_runs() -> None:
    again = {"evaluator": EvaluatorStatus(state="Restarting")}
    running = admitted(Phase.RUNNING, ("n1", 1)).model_copy(update=again)
    assert observed(record_of(running), {}, T0)["evaluator"] == "Restarting"
    assert "evaluator" not in observed(record_of(WAITS.model_copy(update=again)), {}, T0)


def node(busy: int | None, *, simulated: bool = False) -> GPUNode:
    """Two GPUs of the job, of which the second is busy."""
    holder = {
        "podUID": "p", "namespace": "red", "pod": "train-1-0", "job": "train", "jobUID": UID, "attempt": 1,
        "nodeRank": 0, "since": "2026-01-01T00:00:00Z", "evidence": "Pod",
        "gpus": [{"uuid": uuid, "memoryMiB": 32_768, "computeMilli": 400} for uuid in ("GPU-n1-0", "GPU-n1-1")],
    }  # fmt: skip
    gpus = [
        {
            "uuid": f"GPU-n1-{index}", "index": index, "class": "H100", "memoryMiB": 81_920,
            "used": {"memoryMiB": 9, "utilizationPercent": percent},
            "processes": [{"podUID": "p", "memoryMiB": 1_000 + index}],
        }
        for index, percent in enumerate((busy, None if busy is None else 90))
    ]  # fmt: skip
    status = {"gpus": gpus, "holders": [holder], "simulated": simulated}
    return to_core.parse_gpunode(
        {"apiVersion": names.API_VERSION, "kind": "GPUNode", "metadata": {"name": "n1", "uid": "g"}, "status": status}
    )


@pytest.mark.parametrize(
    ("seen", "use"),
    [
        (node(0), {"measuredGPUs": 2, "idleGPUs": 1, "memoryPeakMiB": 1_001, "memoryHeldMiB": 32_768}),
        (node(50), {"measuredGPUs": 2, "idleGPUs": 0, "memoryPeakMiB": 1_001, "memoryHeldMiB": 32_768}),
        (node(None), {"memoryPeakMiB": 1_001, "memoryHeldMiB": 32_768}),
        (node(0, simulated=True), None),
        (None, None),
    ],
    ids=["one is idle", "both are busy", "a driver that shows no load", "simulated", "no report"],
)
def test_idle_gpus_and_memory_are_those_of_the_newest_reports(seen: GPUNode | None, use: dict[str, int] | None) -> None:
    record = record_of(admitted(Phase.RUNNING, ("n1", 2)))
    nodes = {"n1": seen} if seen is not None else {}
    assert observed(record, use_now([record], nodes), T0).get("use") == use


def test_of_a_job_that_holds_nothing_no_use_is_told() -> None:
    assert "use" not in observed(
        record_of(WAITS), use_now([record_of(admitted(Phase.RUNNING, ("n1", 2)))], {"n1": node(0)}), T0
    )
