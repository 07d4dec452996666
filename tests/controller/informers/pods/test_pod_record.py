"""A pod, decoded: whose it is, how it ended, why it does not start."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant import contract, names
from cotenant.controller.client.trimming import trimmed
from cotenant.controller.informers.pods.pod_record import DeletionRequest, Exit, read_pod
from tests.controller.builders import exited, pod_document, terminated


def test_a_deletion_has_the_time_of_its_first_request_and_the_grace_period_that_is_left() -> None:
    document = pod_document(deleting=True)
    document["metadata"]["deletionGracePeriodSeconds"] = 45
    document["spec"]["terminationGracePeriodSeconds"] = 90
    found = read_pod(document)
    assert (found.deletion, found.grace_s) == (DeletionRequest(asked_at=1767225660.0 - 45, grace_s=45), 90)
    assert (read_pod(pod_document()).deletion, read_pod(pod_document()).grace_s) == (None, 30)


@pytest.mark.parametrize(
    ("node", "deleting", "held"),
    [("n1", False, True), ("n1", True, True), ("", False, True), ("", True, False)],
    ids=["runs", "ends", "waits for its node", "deleted before it had a node, and kept by a finalizer"],
)
def test_a_pod_holds_gpus_unless_it_can_never_get_a_node(node: str, deleting: bool, held: bool) -> None:
    assert read_pod(pod_document(node=node, deleting=deleting)).held is held


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"phase": "Running"}, None),
        (terminated(0), Exit(code=0, reason="Error", at=1767225630.0)),
        (
            terminated(3, message="boom", rank=1),
            Exit(
                code=3,
                reason="Error",
                at=1767225630.0,
                termination=contract.Termination(
                    node_rank=0, attempt=1, code=3, reason="UserError", message="boom", rank=1
                ),
            ),
        ),
        ({"phase": "Failed", "reason": "Evicted"}, Exit(code=-1, reason="Evicted")),
    ],
    ids=["still running", "without a word", "with the launcher's words", "evicted by the kubelet"],
)
def test_how_a_pod_ended(status: dict[str, Any], expected: Exit | None) -> None:
    assert read_pod(pod_document(status=status)).exit == expected
    assert exited(0).code == 0


REFUSED = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no healthy devices present"}


@pytest.mark.parametrize(
    ("ended", "uid", "code"),
    [(terminated(0), "pod-1", 0), (terminated(3), "pod-1", -1), (terminated(0), "another", -1)],
    ids=["it had succeeded", "it had failed", "it is another pod of that name"],
)
def test_a_pod_that_has_succeeded_stays_so_when_its_kubelet_starts_again(
    ended: dict[str, Any], uid: str, code: int
) -> None:
    before, after = pod_document(status=ended), pod_document(status=REFUSED)
    before["metadata"]["uid"], after["metadata"]["uid"] = "pod-1", uid
    found = read_pod(after, read_pod(before)).exit
    assert found is not None
    assert found.code == code


CRASHED = {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2026-01-01T00:00:30Z"}}
BACK_OFF = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}


def evaluator_status(phase: str, **container: Any) -> dict[str, Any]:
    return {"phase": phase, "containerStatuses": [{"name": names.CONTAINER, **container}]}


@pytest.mark.parametrize(
    ("status", "ended", "before", "restarts"),
    [
        (evaluator_status("Running", state={"running": {}}), None, None, 0),
        (evaluator_status("Running", state=CRASHED), None, 1, 0),
        (evaluator_status("Running", state=BACK_OFF, lastState=CRASHED, restartCount=1), None, 1, 1),
        (evaluator_status("Running", state={"running": {}}, lastState=CRASHED, restartCount=2), None, 1, 2),
        (evaluator_status("Succeeded", state={"terminated": {"exitCode": 0}}), 0, 0, 0),
        ({"phase": "Failed", "reason": "Evicted"}, -1, None, 0),
    ],
    ids=["runs", "has just failed", "waits to be started again", "runs again", "has ended", "evicted"],
)
def test_an_evaluator_that_failed_has_not_ended_because_its_kubelet_starts_it_again(
    status: dict[str, Any], ended: int | None, before: int | None, restarts: int
) -> None:
    found = read_pod(pod_document(1, evaluator=True, status=status))
    exits = [one and one.code for one in (found.exit, found.earlier_exit)]
    assert (exits, found.restarts, found.role) == ([ended, before], restarts, contract.Role.EVALUATOR)
    assert found.held is (ended is None)


@pytest.mark.parametrize(
    ("status", "waiting"),
    [
        (
            {
                "containerStatuses": [
                    {"name": "worker", "state": {"waiting": {"reason": "ErrImagePull", "message": "no"}}}
                ]
            },
            "ErrImagePull: no",
        ),
        ({"containerStatuses": [{"name": "worker", "state": {"waiting": {"reason": "ContainerCreating"}}}]}, ""),
        (
            {
                "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no cpu"}
                ]
            },
            "Unschedulable: no cpu",
        ),
    ],
    ids=["no image", "on its way", "no room"],
)
def test_why_a_pod_does_not_start(status: dict[str, Any], waiting: str) -> None:
    assert read_pod(pod_document(status={"phase": "Pending"} | status)).waiting == waiting


def test_the_gates_of_a_pod_that_is_held_back_are_named() -> None:
    """The API server's own words name none."""
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "is blocked"}
    document = pod_document(node="", status={"phase": "Pending", "conditions": [gated]})
    document["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}, {"name": "example.com/b"}]
    told = "SchedulingGated: scheduling gates kueue.x-k8s.io/admission, example.com/b"
    assert (read_pod(document).waiting, read_pod(trimmed(document)).waiting) == (told, told)


def ended_with(message: str) -> dict[str, Any]:
    state = {"exitCode": 3, "reason": "Error", "message": message, "finishedAt": "2026-01-01T00:00:30Z"}
    return {"phase": "Failed", "containerStatuses": [{"name": names.CONTAINER, "state": {"terminated": state}}]}


@pytest.mark.parametrize(
    ("message", "quoted"),
    [
        ("[" * 4090, "its termination message nests more than 4 deep"),
        ('{"tail": [1', "its termination message is not JSON: Expecting ',' delimiter: line 1 column 12 (char 11)"),
        ("[]", "its termination message is not an object"),
        ("runc: no such file \x1b[2J\u202e", "runc: no such file \\x1b[2J\\u202e"),
        ("x" * 4000, "x" * 999 + "…"),
    ],
    ids=lambda text: text[:12],
)
@pytest.mark.parametrize("foreign", [False, True], ids=["a pod of ours", "a pod of somebody else"])
def test_a_message_that_no_launcher_wrote_is_quoted_as_plain_text(message: str, quoted: str, foreign: bool) -> None:
    document = pod_document(status=ended_with(message))
    if foreign:
        document["spec"]["containers"][0]["env"] = []
    assert read_pod(document).exit == Exit(code=3, reason="Error", at=1767225630.0, runtime_message=quoted)


def test_the_address_of_a_pod_in_the_network_of_its_node_is_not_its_own() -> None:
    document = pod_document(status={"phase": "Running", "podIP": "10.0.0.7"})
    assert read_pod(document).ip == "10.0.0.7"
    document["spec"]["hostNetwork"] = True
    assert read_pod(document).ip == ""


def running(**state: Any) -> dict[str, Any]:
    """A pod that goes on; `state` is that of its worker container."""
    containers = [{"name": "proxy", "state": {"running": {}}}, {"name": names.CONTAINER, "state": state}]
    return {"phase": "Running", "containerStatuses": containers}


OVER = running(terminated={"exitCode": 3, "reason": "Error", "finishedAt": "2026-01-01T00:00:30Z"})


def test_the_end_of_the_worker_container_is_the_end_though_a_proxy_runs_on() -> None:
    document = pod_document(status=OVER)
    document["spec"]["containers"].append({"name": "proxy"})
    document["spec"]["initContainers"] = [{"name": "init"}]
    found = read_pod(document)
    assert found.exit == Exit(code=3, reason="Error", at=1767225630.0)
    assert (found.held, found.lingers, found.added_containers) == (False, True, ("init", "proxy"))


def test_a_pod_whose_phase_lags_behind_its_only_container_does_not_linger() -> None:
    ended = {"terminated": {"exitCode": 0, "finishedAt": "2026-01-01T00:00:30Z"}}
    status = {"phase": "Running", "containerStatuses": [{"name": names.CONTAINER, "state": ended}]}
    found = read_pod(pod_document(status=status))
    assert (found.exit is None, found.lingers) == (False, False)


def test_a_pod_of_others_holds_what_it_requests_until_all_of_it_has_ended() -> None:
    document = pod_document(status=OVER)
    document["spec"]["containers"][0]["env"] = []
    found = read_pod(document)
    assert (found.worker, found.exit, found.held, found.lingers) == (None, None, True, False)


def test_a_container_that_was_added_and_does_not_start_is_named() -> None:
    waits = {"name": "istio-init", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no"}}}
    document = pod_document(status={"phase": "Pending", "initContainerStatuses": [waits]})
    assert read_pod(document).waiting == "ImagePullBackOff: container istio-init: no"


READY = {"type": "PodReadyToStartContainers", "status": "True"}
CREATING = [{"name": names.CONTAINER, "state": {"waiting": {"reason": "ContainerCreating"}}}]
STARTED = [{"name": names.CONTAINER, "state": {"running": {"startedAt": "1970-01-01T00:01:40Z"}}}]
NOT_STARTED = [{"name": names.CONTAINER, "state": {"terminated": {"exitCode": 128, "reason": "StartError"}}}]
SINCE = {"startTime": "1970-01-01T00:00:50Z"}
NOWHERE = {"type": "PodScheduled", "status": "False", "lastTransitionTime": "1970-01-01T00:00:30Z"}


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ({"phase": "Pending", **SINCE, "conditions": [READY], "containerStatuses": CREATING}, (True, 0.0, 50.0)),
        ({"phase": "Pending", **SINCE, "conditions": [], "containerStatuses": CREATING}, (False, 0.0, 50.0)),
        ({"phase": "Running", **SINCE, "conditions": [READY], "containerStatuses": STARTED}, (False, 100.0, 50.0)),
        ({"phase": "Failed", **SINCE, "conditions": [READY], "containerStatuses": NOT_STARTED}, (False, 0.0, 50.0)),
        ({"phase": "Pending", "conditions": [NOWHERE]}, (False, 0.0, 30.0)),
    ],
    ids=["pulls", "waits for its volumes", "runs", "could not start", "has no place"],
)
def test_a_pod_shows_how_far_its_start_is(status: dict[str, Any], told: tuple[bool, float, float]) -> None:
    found = read_pod(pod_document(status=status, node="" if status.get("conditions") == [NOWHERE] else "n1"))
    assert (found.pulls, found.started_at, found.stuck_since) == told
