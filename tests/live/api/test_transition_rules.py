"""What may change on a job that holds GPUs, what may not, and what `kubectl get` shows: asked of a real API server."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.live.api.conftest import Answer, Server

pytestmark = pytest.mark.cluster

JOBS = "/apis/cotenant.dev/v1beta1/namespaces/default/trainingjobs"
MERGE = "application/merge-patch+json"
NUMBERS = itertools.count()

SPEC = {
    "queue": "team-a",
    "workers": 2,
    "gpu": {"count": 1},
    "runtime": {"entrypoint": "train:main"},
}
PLACEMENT = {
    "admittedAt": "2026-01-02T03:04:05Z",
    "workers": 2,
    "nodes": [
        {
            "node": "node-1",
            "ranks": [
                {"rank": 0, "gpus": [{"uuid": "GPU-1", "memoryMiB": 81920, "computeMilli": 1000}]},
                {"rank": 1, "gpus": [{"uuid": "GPU-2", "memoryMiB": 81920, "computeMilli": 1000}]},
            ],
        }
    ],
}
RUNNING = {"phase": "Running", "placement": PLACEMENT}
FINISHED = {"phase": "Succeeded", "placement": None}

FIXED = {
    "queue": "team-b",
    "workers": 3,
    "minWorkers": 1,
    "gpu": {"count": 2},
    "resources": {"cpu": "2"},
    "chief": {"resources": {"cpu": "4"}},
    "topology": {"level": "rack"},
    "spread": {"level": "node"},
    "runtime": {"entrypoint": "train:other"},
    "evaluator": {"command": ["python", "evaluate.py"]},
    "data": [{"from": "s3://bucket/a", "to": "/data"}],
    "gracePeriod": "60s",
    "checkpoint": {"path": "s3://bucket/runs"},
}
FREE = {
    "suspend": True,
    "priority": 7,
    "priorityClassName": "high",
    "expectedRuntime": "1h",
    "maxRuntime": "2h",
    "idleTimeout": "10m",
    "retries": 2,
    "ttlAfterFinished": "1h",
}


class Job:
    def __init__(self, server: Server) -> None:
        self._server = server
        self.name = f"edit-{next(NUMBERS)}"
        document = {
            "apiVersion": "cotenant.dev/v1beta1",
            "kind": "TrainingJob",
            "metadata": {"name": self.name},
            "spec": SPEC,
        }
        answer = server.call("POST", f"{JOBS}?fieldValidation=Strict", document)
        assert answer.status == 201, answer.message

    def edit(self, change: dict[str, Any]) -> Answer:
        return self._server.call("PATCH", f"{JOBS}/{self.name}?fieldValidation=Strict", {"spec": change}, kind=MERGE)

    def report(self, status: dict[str, Any]) -> Answer:
        return self._server.call("PATCH", f"{JOBS}/{self.name}/status", {"status": status}, kind=MERGE)

    def remove(self) -> None:
        self._server.call("DELETE", f"{JOBS}/{self.name}")


@pytest.fixture
def job(server: Server) -> Iterator[Job]:
    made = Job(server)
    yield made
    made.remove()


@pytest.mark.parametrize("field", FIXED)
def test_a_running_job_keeps_what_its_pods_were_made_of(field: str, job: Job) -> None:
    assert job.report(RUNNING).status == 200
    answer = job.edit({field: FIXED[field]})
    assert (answer.status, f"spec.{field}" in answer.message, "suspend: true" in answer.message) == (422, True, True)


@pytest.mark.parametrize("field", FIXED)
def test_a_waiting_job_may_change_everything(field: str, job: Job) -> None:
    assert job.report({"phase": "Pending"}).status == 200
    answer = job.edit({field: FIXED[field]})
    assert (answer.status, answer.message) == (200, "")


def test_a_running_job_cannot_lose_what_its_pods_were_made_of(job: Job) -> None:
    assert job.edit({"topology": FIXED["topology"], "checkpoint": FIXED["checkpoint"]}).status == 200
    assert job.report(RUNNING).status == 200
    answer = job.edit({"topology": None, "checkpoint": None})
    named = [field in answer.message for field in ("spec.topology", "spec.checkpoint", "spec.gpu")]
    assert (answer.status, named) == (422, [True, True, False])


@pytest.mark.parametrize("field", FREE)
def test_a_running_job_may_be_held_back_hurried_and_limited(field: str, job: Job) -> None:
    assert job.report(RUNNING).status == 200
    answer = job.edit({field: FREE[field]})
    assert (answer.status, answer.message) == (200, "")


def test_a_finished_job_stays_what_it_was(job: Job) -> None:
    assert job.report(FINISHED).status == 200
    assert job.edit({"workers": 4}).status == 422
    assert job.edit({"ttlAfterFinished": "1m"}).status == 200


@pytest.mark.parametrize("suspend", [True, False])
def test_a_finished_job_is_neither_suspended_nor_resumed(job: Job, suspend: bool) -> None:
    assert job.edit({"suspend": not suspend}).status == 200
    assert job.report(FINISHED).status == 200
    answer = job.edit({"suspend": suspend})
    assert answer.status == 422
    assert "the job has finished: there is nothing to suspend or to resume" in answer.message


def test_a_suspended_job_may_change_everything_again(job: Job) -> None:
    assert job.report(RUNNING).status == 200
    assert job.report({"phase": "Suspended", "placement": None}).status == 200
    assert job.edit({"workers": 4, "gpu": {"count": 2}}).status == 200


def test_the_status_is_not_written_with_the_spec(job: Job, server: Server) -> None:
    answer = server.call("PATCH", f"{JOBS}/{job.name}", {"status": RUNNING}, kind=MERGE)
    assert (answer.status, "status" in answer.body) == (200, False)


def test_a_table_of_jobs_shows_what_people_ask_first(job: Job, server: Server) -> None:
    status = {
        **RUNNING,
        "workers": "2",
        "gpus": "2",
        "reason": "Admitted",
        "message": "runs on node-1",
        "progress": {"summary": "120/400 (30 %)"},
        "attempts": 1,
        "isolation": "Watched",
        "isolationLevels": {"memory": "Watched", "compute": "None"},
    }
    assert job.report(status).status == 200
    table = server.call(
        "GET", f"{JOBS}/{job.name}", accept="application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    ).body
    shown = {
        column["name"]: cell
        for column, cell in zip(table["columnDefinitions"], table["rows"][0]["cells"], strict=True)
        if column["name"] != "Age"
    }
    assert shown == {
        "Name": job.name,
        "Phase": "Running",
        "Queue": "team-a",
        "Workers": "2",
        "GPUs": "2",
        "Progress": "120/400 (30 %)",
        "Reason": "Admitted",
        "Attempts": 1,
        "Isolation": "Watched",
        "Compute": "None",
        "Message": "runs on node-1",
        "Cluster": None,
    }


def test_what_is_left_out_is_filled_in(server: Server) -> None:
    document = {
        "apiVersion": "cotenant.dev/v1beta1",
        "kind": "TrainingJob",
        "metadata": {"name": "defaults"},
        "spec": {"queue": "team-a", "gpu": {"count": 1}, "runtime": {"entrypoint": "train:main"}},
    }
    assert server.dry_run(document, "TrainingJob").body["spec"] == {
        "queue": "team-a",
        "suspend": False,
        "gpu": {"count": 1, "sharing": "Queue"},
        "runtime": {
            "entrypoint": "train:main",
            "rayTrain": False,
            "strategy": "AllReduce",
            "collective": "auto",
            "precision": "fp32",
            "gpuProcesses": 1,
        },
        "gracePeriod": "30s",
        "retries": 0,
    }
