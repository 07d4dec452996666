"""An evaluator beside a job, on one tainted GPU node and one node without GPUs, under real kubelets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.live.e2e.tenancy import CHECKOUT, Document, Tenancy, product, training_job

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

EXAMPLE = CHECKOUT / "examples" / "evaluator" / "digits.yaml"
TRAINS = "import time; [time.sleep(1) for _ in range(600)]"
SMALL = {"cpu": "100m", "memory": "256Mi"}


@pytest.fixture(scope="module")
def mixed() -> Iterator[Tenancy]:
    from cotenant_local.cluster import spec

    gpu = {"name": "gpu", "gpus": {"count": 2, "class": "H100"}, "taints": ["nvidia.com/gpu=present:NoSchedule"]}
    with product("evaluator", spec.parse({"nodes": [gpu, {"name": "cpu"}]}, "this test")) as tenancy:
        yield tenancy
        tenancy.delete_all()


@pytest.fixture(autouse=True)
def _alone(mixed: Tenancy) -> Iterator[None]:
    yield
    mixed.delete_all()


def evaluated(name: str, program: str, train: str = TRAINS, **evaluator: Any) -> tuple[Document, Document]:
    """The job, and the code of its evaluator."""
    metadata = {"name": f"{name}-code", "namespace": "team-a"}
    code = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"evaluate.py": program}}
    own = {"command": ["python", "evaluate.py"], "resources": SMALL, **evaluator}
    runtime = {"code": {"configMap": {"name": f"{name}-code"}}}
    job = training_job(name, command=["python", "-c", train], runtime=runtime, evaluator=own, gracePeriod="5s")
    return code, job


def pods(tenancy: Tenancy, job: str) -> dict[str, Document]:
    items = tenancy.get("pods", "-n", "team-a", "-l", f"cotenant.dev/job={job}")["items"]
    return {pod["metadata"]["name"].removeprefix(f"{job}-"): pod for pod in items}


def state(tenancy: Tenancy, job: str) -> Document:
    found: Document = tenancy.job(job).get("status", {}).get("evaluator") or {}
    return found


def test_every_checkpoint_that_it_measures_is_one_of_the_ranks_and_the_last_is_among_them(mixed: Tenancy) -> None:
    mixed.apply(*yaml.safe_load_all(EXAMPLE.read_text()))
    status = mixed.wait_phase("evaluated-digits", "Succeeded", "Failed", seconds=300)["status"]
    assert status["phase"] == "Succeeded", status
    assert "placement" not in status
    mixed.wait(lambda: state(mixed, "evaluated-digits").get("state") == "Ended", seconds=300, what="it has ended")
    found = pods(mixed, "evaluated-digits")
    assert {name: pod["spec"]["nodeName"] for name, pod in found.items()} == {"1-0": "gpu", "1-e0": "cpu"}
    lines = [json.loads(line) for line in mixed.logs("evaluated-digits-1-e0").splitlines() if line.startswith("{")]
    steps = [line["step"] for line in lines]
    assert steps == sorted(set(steps))
    assert (steps[-1], lines[-1]["test_accuracy"] >= 0.9) == (20, True), lines


FAILS = """
import os, json
print(*[os.environ[name] for name in ("COTENANT_ROLE", "RANK", "WORLD_SIZE")], repr(os.environ["CUDA_VISIBLE_DEVICES"]))
print(json.loads(os.environ["TF_CONFIG"])["task"], flush=True)
raise ValueError("no model is as good as that")
"""


def test_its_failure_is_told_and_tried_again_and_the_ranks_train_on(mixed: Tenancy) -> None:
    mixed.apply(*evaluated("fails", FAILS))
    mixed.wait(lambda: state(mixed, "fails").get("restarts", 0) >= 2, seconds=180, what="it was started again twice")
    found = mixed.job("fails")["status"]
    assert (found["phase"], found["attempts"], found.get("failures", 0)) == ("Running", 1, 0), found
    assert "ValueError: no model is as good as that" in found["evaluator"]["message"], found["evaluator"]
    about = "involvedObject.name=fails,reason=EvaluatorFailed"
    [event] = mixed.get("events", "-n", "team-a", "--field-selector", about)["items"]
    assert "no model is as good as that" in event["message"]
    said = mixed.wait(lambda: mixed.logs("fails-1-e0"), what="the one that was started again says something")
    assert "evaluator 0 1 ''" in said, said
    assert "{'type': 'evaluator', 'index': 0}" in said, said


def test_one_that_is_deleted_is_made_again_and_the_attempt_goes_on(mixed: Tenancy) -> None:
    mixed.apply(*evaluated("deleted", TRAINS))
    mixed.wait(lambda: state(mixed, "deleted").get("state") == "Running", what="the evaluator runs")
    first = pods(mixed, "deleted")["1-e0"]["metadata"]["uid"]
    mixed.cluster.kubectl("delete", "pod", "deleted-1-e0", "-n", "team-a", "--wait=false")

    def again() -> bool:
        pod = pods(mixed, "deleted").get("1-e0")
        return pod is not None and pod["metadata"]["uid"] != first and state(mixed, "deleted")["state"] == "Running"

    mixed.wait(again, what="another pod of the evaluator runs")
    found = mixed.job("deleted")["status"]
    assert (found["phase"], found["attempts"]) == ("Running", 1), found


def test_one_that_fits_nowhere_keeps_no_rank_from_its_gpu(mixed: Tenancy) -> None:
    mixed.apply(*evaluated("too-big", TRAINS, resources={"cpu": "1000", "memory": "256Mi"}))
    mixed.wait(lambda: state(mixed, "too-big").get("reason") == "Unschedulable", what="the status says why")
    found = mixed.job("too-big")["status"]
    assert found["phase"] == "Running", found
    assert "evaluator pod too-big-1-e0 does not start: Unschedulable" in found["evaluator"]["message"]


def test_the_job_succeeds_without_waiting_for_it_and_then_it_is_ended(mixed: Tenancy) -> None:
    mixed.apply(*evaluated("short", TRAINS, train="import time; time.sleep(8)"))
    mixed.wait_phase("short", "Succeeded")
    mixed.wait(lambda: not any(_runs(pod) for pod in pods(mixed, "short").values()), what="no pod of the job runs")
    assert state(mixed, "short")["state"] == "Stopped"


def test_it_ends_when_the_job_is_suspended(mixed: Tenancy) -> None:
    mixed.apply(*evaluated("held", TRAINS))
    mixed.wait(lambda: state(mixed, "held").get("state") == "Running", what="the evaluator runs")
    change = json.dumps({"spec": {"suspend": True}})
    mixed.cluster.kubectl("patch", "trainingjob", "held", "-n", "team-a", "--type=merge", "-p", change)
    mixed.wait_phase("held", "Suspended")
    mixed.wait(lambda: "1-e0" not in pods(mixed, "held"), what="its pod is gone")
    assert state(mixed, "held")["state"] == "Stopped"


def _runs(pod: Document) -> bool:
    return pod["status"]["phase"] in {"Pending", "Running"}
