"""Nonsense meets a clear message at the right place, and leaves nothing half-done."""

from typing import Any

import pytest

from tests.live.e2e.tenancy import Document, Tenancy, training_job

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"gpu": {"memoryFraction": "0.0"}}, "spec.gpu.memoryFraction"),
        ({"gpu": {"memoryFraction": "NaN"}}, "spec.gpu.memoryFraction"),
        ({"gpu": {"memoryFraction": float("1.5")}}, "spec.gpu.memoryFraction"),
        ({"gpu": {"count": 0}}, "spec.gpu.count"),
        ({"gpu": {"count": -1}}, "spec.gpu.count"),
        ({"gpu": {"memory": "16Gi", "memoryFraction": "0.4"}}, "spec.gpu"),
        ({"workers": 0}, "spec.workers"),
        ({"runtime": {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}}, "spec.runtime.env"),
        ({"gpus": 3}, "gpus"),
    ],
    ids=str,
)
def test_the_api_server_names_the_field_of_a_document_that_makes_no_sense(
    installed: Tenancy, spec: dict[str, Any], field: str
) -> None:
    said = installed.refused(training_job("nonsense", **spec))
    assert field in said.replace("[0]", "")
    assert "nonsense" not in [job["metadata"]["name"] for job in installed.jobs()]


@pytest.mark.parametrize(
    ("spec", "reason", "words"),
    [
        ({"workers": 100, "gpu": {"count": 1}}, ("ExceedsLimit", "ExceedsCluster"), ["100", "2"]),
        ({"queue": "nowhere"}, ("QueueNotFound",), ["nowhere", "team-a"]),
        ({"queue": "team-b"}, ("NamespaceNotServed",), ["team-a", "team-b"]),
        ({"gpu": {"count": 1, "classes": ["B900"]}}, ("ClassNotFound",), ["B900", "H100"]),
        ({"gpu": {"count": 1, "zones": ["moon"]}}, ("ZoneNotFound",), ["moon"]),
        ({"gpu": {"memory": "200Gi"}}, ("ExceedsCluster",), ["200", "80"]),
        ({"priority": 1_000_000_000}, ("PriorityNotAllowed",), ["1000000000", "write spec.priority: 1000", "team-a"]),
    ],
    ids=str,
)
def test_a_job_that_cannot_start_says_why_in_words_that_help(
    tenancy: Tenancy, spec: dict[str, Any], reason: tuple[str, ...], words: list[str]
) -> None:
    tenancy.apply(training_job("hopeless", **spec))

    def told() -> Document | None:
        status = tenancy.job("hopeless").get("status", {})
        return status if status.get("pending") else None

    status = tenancy.wait(told, seconds=30, what="the job has a verdict")
    pending = status["pending"]
    assert status["phase"] == "Pending"
    assert pending["reason"] in reason
    missing = [word for word in words if word not in pending["message"]]
    assert not missing, pending["message"]
    assert not tenancy.get("pods", "-n", "team-a")["items"]
    uid = tenancy.job("hopeless")["metadata"]["uid"]

    def event() -> Document | None:
        about = ("-n", "team-a", "--field-selector", f"involvedObject.uid={uid},reason={pending['reason']}")
        return next(iter(tenancy.get("events", *about)["items"]), None)

    found = tenancy.wait(event, seconds=30, what="there is an Event about it")
    assert (found["type"], found["message"]) == ("Warning", pending["message"])


def test_a_job_whose_code_is_not_there_says_so_and_starts_when_it_comes(tenancy: Tenancy) -> None:
    """The kubelet says it in an Event of the pod only, which the operator reads."""
    tenancy.apply(training_job("codeless", command=["true"], runtime={"code": {"configMap": {"name": "forgotten"}}}))

    def told() -> Document | None:
        status = tenancy.job("codeless").get("status", {})
        return status if status.get("reason") == "FailedMount" else None

    status = tenancy.wait(told, seconds=90, what="the job says what is not there")
    assert status["phase"] == "Starting"
    assert 'configmap "forgotten" not found' in status["message"]
    metadata = {"name": "forgotten", "namespace": "team-a"}
    tenancy.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"train.py": ""}})
    tenancy.wait_phase("codeless", "Succeeded")


def test_applying_twice_changes_nothing(tenancy: Tenancy) -> None:
    job = training_job("twice", command=["sleep", "600"])
    tenancy.apply(job)
    before = tenancy.wait_phase("twice", "Running")
    assert "unchanged" in tenancy.apply(job)
    after = tenancy.job("twice")
    assert after["metadata"]["generation"] == before["metadata"]["generation"] == 1
    assert len(tenancy.get("pods", "-n", "team-a")["items"]) == 1


def test_a_running_job_cannot_be_edited_into_another_one(tenancy: Tenancy) -> None:
    tenancy.apply(training_job("fixed", command=["sleep", "600"]))
    tenancy.wait_phase("fixed", "Running")
    said = tenancy.refused(training_job("fixed", command=["sleep", "600"], gpu={"memoryFraction": "0.9"}))
    assert "spec.gpu" in said
    assert tenancy.job("fixed")["status"]["phase"] == "Running"


def test_a_job_that_is_deleted_while_it_starts_leaves_nothing(tenancy: Tenancy) -> None:
    tenancy.apply(training_job("gone", workers=2, gpu={"memoryFraction": "0.9"}, command=["sleep", "600"]))
    tenancy.wait_phase("gone", "Starting", "Running")
    tenancy.cluster.kubectl("delete", "trainingjob", "gone", "-n", "team-a")
    left = "pods,services,secrets,networkpolicies"
    tenancy.wait(
        lambda: not tenancy.get(left, "-n", "team-a", "-l", "cotenant.dev/job=gone")["items"],
        what="everything of the job is gone",
    )
    tenancy.apply(training_job("next", workers=2, gpu={"memoryFraction": "0.9"}))
    tenancy.wait_phase("next", "Succeeded")


def test_a_suspended_job_waits_until_it_is_resumed(tenancy: Tenancy) -> None:
    tenancy.apply(training_job("held", suspend=True))
    tenancy.wait_phase("held", "Suspended")
    assert not tenancy.get("pods", "-n", "team-a")["items"]
    tenancy.cluster.kubectl("patch", "tj", "held", "-n", "team-a", "--type=merge", "-p", '{"spec":{"suspend":false}}')
    tenancy.wait_phase("held", "Succeeded")


def test_a_program_that_raises_is_reported_with_its_last_words(tenancy: Tenancy) -> None:
    program = "raise SystemExit('the data set is empty')"
    tenancy.apply(training_job("raises", command=["python", "-c", program], retries=0))
    status = tenancy.wait_phase("raises", "Failed")["status"]
    assert "the data set is empty" in status["message"] + str(status.get("lastExit"))
    assert status["lastExit"]["code"] == 1


def test_a_job_over_its_time_ends_with_that_reason(tenancy: Tenancy) -> None:
    tenancy.apply(training_job("endless", command=["sleep", "600"], maxRuntime="3s", retries=0))
    status = tenancy.wait_phase("endless", "Failed")["status"]
    assert "maxRuntime" in status["message"]
