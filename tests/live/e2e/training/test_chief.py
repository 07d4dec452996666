"""A chief, and a job in all four roles, on GPU nodes with few CPUs and a node without GPUs, under real kubelets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.live.e2e.tenancy import CHECKOUT, Document, Tenancy, product, training_job

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

EXAMPLE = CHECKOUT / "examples" / "roles" / "digits.yaml"
PROGRAM = """
import json, os, time
cluster = json.loads(os.environ["TF_CONFIG"])
print(os.environ["RANK"], os.environ["COTENANT_ROLE"], cluster["task"], [*cluster["cluster"]], flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def narrow() -> Iterator[Tenancy]:
    from cotenant_local.cluster import spec

    gpus = {"count": 2, "class": "H100"}
    nodes = [
        {"name": "small", "cpu": 3, "gpus": gpus},
        {"name": "large", "cpu": 5, "gpus": gpus},
        {"name": "cpu"},
    ]
    with product("chief", spec.parse({"nodes": nodes}, "this test")) as tenancy:
        yield tenancy
        tenancy.delete_all()


@pytest.fixture(autouse=True)
def _alone(narrow: Tenancy) -> Iterator[None]:
    yield
    narrow.delete_all()


def led(name: str, cpu: str, **spec: Any) -> Document:
    """A gang of three whole GPUs, one CPU for each worker, and a chief with more."""
    resources, chief = {"cpu": "1", "memory": "256Mi"}, {"resources": {"cpu": cpu, "memory": "512Mi"}}
    gpu = {"count": 1}
    return training_job(
        name, command=["python", "-c", PROGRAM], workers=3, gpu=gpu, resources=resources, chief=chief, **spec
    )


def pods(tenancy: Tenancy, job: str) -> dict[str, Document]:
    items = tenancy.get("pods", "-n", "team-a", "-l", f"cotenant.dev/job={job}")["items"]
    return {pod["metadata"]["name"].removeprefix(f"{job}-"): pod for pod in items}


def test_rank_0_runs_where_there_is_room_for_it_and_its_pod_asks_for_exactly_that(narrow: Tenancy) -> None:
    narrow.apply(led("led", "3"))
    narrow.wait_phase("led", "Running")
    found = pods(narrow, "led")
    head = found["1-0"]
    assert head["spec"]["nodeName"] == "large"
    ranks = len(json.loads(head["metadata"]["annotations"]["cotenant.dev/placement"])["ranks"])
    requests = [pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] for pod in found.values()]
    assert sorted(requests) == sorted([str(3 + ranks - 1), str(3 - ranks)])
    said = narrow.wait(lambda: "chief" in (text := narrow.logs("led-1-0")) and text, what="rank 0 says its role")
    assert "0 chief {'type': 'chief', 'index': 0} ['chief', 'worker']" in said, said
    other = narrow.wait(lambda: narrow.logs("led-1-1"), what="the last rank says its role")
    assert "2 worker {'type': 'worker', 'index': 1} ['chief', 'worker']" in other, other


def test_a_chief_for_which_no_node_is_large_enough_is_told_so(narrow: Tenancy) -> None:
    narrow.apply(led("too-large", "8"))
    narrow.wait(lambda: narrow.job("too-large").get("status", {}).get("pending"), what="the reason is said")
    pending = narrow.job("too-large")["status"]["pending"]
    assert pending["reason"] == "ExceedsCluster", pending
    assert "the chief is on one node and asks for 8 CPU, and no node has more than" in pending["message"], pending


def test_a_job_of_all_roles_trains_and_is_measured(narrow: Tenancy) -> None:
    narrow.apply(*yaml.safe_load_all(EXAMPLE.read_text()))
    status = narrow.wait_phase("roles-digits", "Succeeded", "Failed", seconds=300)["status"]
    assert status["phase"] == "Succeeded", status
    assert status["results"]["test_accuracy"] >= 0.9
    narrow.wait(
        lambda: (narrow.job("roles-digits")["status"].get("evaluator") or {}).get("state") == "Ended",
        seconds=300,
        what="the evaluator has measured the last checkpoint",
    )
    roles = {name: pod["metadata"]["labels"]["cotenant.dev/role"] for name, pod in pods(narrow, "roles-digits").items()}
    assert roles["1-e0"] == "evaluator"
    said = narrow.logs("roles-digits-1-e0")
    assert "role evaluator rank 0 of 1" in said, said
    assert "step 20 accuracy" in said, said
