"""Pods whose volumes do not come."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.controller.informers.pods.pod_record import PodRecord, read_pod
from cotenant.controller.lifecycle.policies import start_obstacles
from cotenant.controller.lifecycle.policies.start_obstacles import (
    EXEMPT,
    KUEUE,
    PREPARING,
    REPORT_AFTER_S,
    UNBOUND,
    StartObstacle,
)
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import Phase
from tests.controller.builders import T0, admitted, exited, observed, pod, pod_document


@pytest.mark.parametrize(
    ("status", "since"),
    [
        ({"phase": "Pending"}, 0.0),
        ({"phase": "Pending", "startTime": "1970-01-01T00:01:40Z", "conditions": "False"}, 100.0),
        ({"phase": "Pending", "startTime": "1970-01-01T00:01:40Z", "conditions": "True"}, 0.0),
        ({"phase": "Failed", "startTime": "1970-01-01T00:01:40Z", "conditions": "False"}, 0.0),
    ],
    ids=["no kubelet has seen it", "its volumes are awaited", "its image is pulled", "it has ended"],
)
def test_a_kubelet_says_since_when_it_gets_a_pod_ready(status: dict[str, Any], since: float) -> None:
    ready = status.pop("conditions", None)
    conditions = [{"type": "PodReadyToStartContainers", "status": ready}] if ready else []
    assert read_pod(pod_document(status={**status, "conditions": conditions})).preparing_since == since


TWO = (("n1", 1), ("n2", 1))


def first(*pods: PodRecord, now: float = T0 + 100, **changes: Any) -> StartObstacle | None:
    return start_obstacles.first(observed(admitted(Phase.STARTING, *TWO), *pods, now=now, **changes))


def test_the_first_pod_by_name_that_says_what_it_waits_for_is_the_obstacle() -> None:
    found = first(pod(1, waiting="ErrImagePull: late"), pod(0, waiting="ImagePullBackOff: back-off"))
    assert found == StartObstacle("ErrImagePull", "pod train-1-0 does not start: ImagePullBackOff: back-off")


def test_pods_that_are_up_or_over_hold_nothing_up() -> None:
    up, over = pod(0, waiting="x", ready=True), pod(1, waiting="x", end=exited(0))
    assert first(up, over) is None


def test_long_words_are_cut() -> None:
    found = first(pod(0, waiting="x" * 501))
    assert found is not None
    assert found.message == f"pod train-1-0 does not start: {'x' * 500}"
    delay = first(creation_delay="y" * 501)
    assert delay == StartObstacle("NotCreated", "y" * 500)


@pytest.mark.parametrize(
    ("waited_s", "reported"), [(REPORT_AFTER_S - 1, False), (REPORT_AFTER_S, True), (REPORT_AFTER_S + 1, True)]
)
def test_a_pod_that_waits_for_its_volumes_is_reported_after_half_a_minute(waited_s: float, reported: bool) -> None:
    given = observed(admitted(Phase.STARTING, *TWO), pod(0, preparing_since=T0), now=T0 + waited_s)
    found = start_obstacles.first(given)
    assert (found is not None and found.reason == PREPARING) is reported
    assert start_obstacles.deadline(given, Settings()) == (None if reported else T0 + REPORT_AFTER_S)


@pytest.mark.parametrize("waited_s", [REPORT_AFTER_S - 1, REPORT_AFTER_S])
def test_a_pod_that_no_kube_scheduler_has_looked_at_is_reported_after_half_a_minute(waited_s: float) -> None:
    given = observed(admitted(Phase.STARTING, *TWO), pod(0, node="", waiting=""), now=T0 + waited_s)
    late = waited_s >= REPORT_AFTER_S
    told = StartObstacle(
        UNBOUND, "the kube-scheduler has neither bound pod train-1-0 nor said why not; look whether it runs"
    )
    assert start_obstacles.first(given) == (told if late else None)
    assert start_obstacles.deadline(given, Settings()) == (None if late else T0 + REPORT_AFTER_S)


@pytest.mark.parametrize(
    ("gate", "way_out"), [("example.com/wait", EXEMPT), ("kueue.x-k8s.io/admission", KUEUE)], ids=["any", "Kueue's"]
)
def test_a_gate_that_a_webhook_set_is_told_with_the_way_out(gate: str, way_out: str) -> None:
    found = first(pod(0, node="", waiting=f"SchedulingGated: scheduling gates {gate}"))
    assert found is not None
    assert found.reason == "SchedulingGated"
    assert found.message.endswith(f"{gate}. The operator sets no gate. {way_out}")


@pytest.mark.parametrize("answers", [False, True])
def test_a_volume_that_a_lost_node_keeps_is_told_with_the_way_to_free_it(answers: bool) -> None:
    before, waits = pod(0, attempt=1, node="n2", deleting=True), pod(0, attempt=2, preparing_since=T0)
    cause = "FailedAttachVolume: Multi-Attach error for volume pvc-1: it is used by pod(s) train-1-0"
    lost: dict[str, Any] = {"unreachable_nodes": {} if answers else {"n2": T0}, "causes": {waits.uid: cause}}
    status = admitted(Phase.STARTING, ("n1", 1), attempts=2)
    found = start_obstacles.first(observed(status, before, waits, now=T0 + 100, **lost))
    assert found is not None
    told = found.message.partition(cause)[2]
    assert told == (
        ""
        if answers
        else ". Node n2 does not answer and keeps the volume. If the node is down: kubectl taint node n2"
        " node.kubernetes.io/out-of-service=nodeshutdown:NoExecute, or delete the Node"
    )


def test_only_a_job_that_starts_is_looked_at_again_for_its_volumes() -> None:
    running = observed(admitted(Phase.RUNNING, *TWO), pod(0, preparing_since=T0), now=T0 + 1)
    assert start_obstacles.deadline(running, Settings()) is None


def test_why_one_pod_is_not_up() -> None:
    o = observed(admitted(Phase.STARTING, *TWO), creation_delay="no quota", now=T0 + 1)
    assert start_obstacles.of_pod(o, None) == "no quota"
    assert start_obstacles.of_pod(o, pod(0, waiting="ErrImagePull: no")) == "ErrImagePull: no"
    assert "has waited more than 30 s" in str(start_obstacles.of_pod(o, pod(0, preparing_since=T0)))
    assert start_obstacles.of_pod(o, pod(0)) is None


def test_the_first_pod_that_has_waited_long_enough_is_looked_at_in_time() -> None:
    pods = (pod(0, preparing_since=T0 + 9), pod(1, preparing_since=T0))
    starting = observed(admitted(Phase.STARTING, *TWO), *pods, now=T0 + 10)
    assert start_obstacles.deadline(starting, Settings()) == T0 + REPORT_AFTER_S


CAUSE = 'FailedMount: MountVolume.SetUp failed for volume "code": configmap "digits" not found'


def test_a_pod_that_waits_for_its_volumes_has_the_reason_and_the_words_of_its_kubelet() -> None:
    waits = pod(0, preparing_since=T0)
    late = T0 + REPORT_AFTER_S
    found = first(waits, now=late, causes={waits.uid: CAUSE})
    assert found == StartObstacle("FailedMount", f"pod train-1-0 does not start on node n1: {CAUSE}")
    o = observed(admitted(Phase.STARTING, *TWO), waits, now=late, causes={waits.uid: CAUSE})
    assert CAUSE in str(start_obstacles.of_pod(o, waits))
    assert first(waits, now=late - 1, causes={waits.uid: CAUSE}) is None


def test_what_a_kubelet_said_of_an_earlier_wait_is_not_said_of_a_pull() -> None:
    pulls = pod(0, waiting="")
    found = first(pulls, now=T0 + 1000, causes={pulls.uid: CAUSE})
    assert found is not None
    assert (found.reason, CAUSE in found.message) == ("PullingImage", False)
