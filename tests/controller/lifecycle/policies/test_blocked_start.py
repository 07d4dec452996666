"""Attempts that never ran."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.api.resources.trainingjob_status import BlockedStart, TrainingJobStatus
from cotenant.contract import Role
from cotenant.controller.informers.pods.pod_record import PodRecord
from cotenant.controller.lifecycle.policies import blocked_start
from cotenant.controller.lifecycle.policies.blocked_start import (
    IMAGE_S,
    LASTING_S,
    PAUSE_MAX_S,
    PAUSE_MIN_S,
    SPARES_S,
    STUCK_S,
    UNSURE_S,
    avoided,
)
from cotenant.controller.lifecycle.reconcile import reconcile
from cotenant.controller.lifecycle.status_transitions import finished
from cotenant.controller.lifecycle.termination import Eviction
from cotenant.core.model.lifecycle import LifecycleEvent, Phase
from tests.controller.builders import T0, admitted, observed, pod, server
from tests.support.reconcile_cases import ONE, SETTINGS

NO_CPU = "Unschedulable: 0/1 nodes are available: 1 Insufficient cpu."
OTHER_ZONE = "Unschedulable: 0/2 nodes are available: 1 node(s) had volume node affinity conflict."
NO_CLAIM = 'Unschedulable: 0/1 nodes are available: persistentvolumeclaim "data" not found.'
CDI = "CreateContainerError: failed to inject CDI devices: unresolvable CDI devices"
FOR_AMD64 = "ErrImagePull: failed to pull and unpack image: no match for platform in manifest: not found"
FOR_AMD64_CRIO = 'ErrImagePull: no image found in image index for architecture arm64, variant "v8", OS linux'
SURE, BRIEFLY = SETTINGS.exclude_s, UNSURE_S


def unbound(waiting: str) -> PodRecord:
    return pod(0, node="", waiting=waiting)


@pytest.mark.parametrize(
    ("stuck", "avoided_s"),
    [
        (pod(0, waiting="ErrImagePull: manifest unknown"), {}),
        (pod(0, waiting="ErrImagePull: rpc error: code = NotFound desc = no such image"), {}),
        (pod(0, waiting="ImagePullBackOff: 401 Unauthorized"), {}),
        (pod(0, waiting="InvalidImageName: no"), {}),
        (pod(0, waiting="ErrImagePull: dial tcp: i/o timeout"), {"n1": BRIEFLY}),
        (pod(0, waiting=FOR_AMD64), {"n1": IMAGE_S}),
        (pod(0, waiting=FOR_AMD64_CRIO), {"n1": IMAGE_S}),
        (pod(0, waiting='CreateContainerConfigError: secret "key" not found'), {}),
        (pod(0, waiting=CDI), {"n1": SURE}),
        (unbound(NO_CPU), {"n1": SURE}),
        (unbound(OTHER_ZONE), {"n1": LASTING_S}),
        (unbound(NO_CLAIM), {}),
        (unbound("SchedulingGated: scheduling gates kueue.x-k8s.io/admission"), {}),
        (unbound("SchedulerError: running PreBind plugin: context deadline exceeded"), {}),
        (server(nodes=1, node="", waiting=NO_CPU), {}),
    ],
    ids=["an image that is not there", "as containerd says it",
         "a wrong pull secret", "no name of an image", "a registry that is silent",
         "an image for other processors", "as CRI-O says it",
         "a missing Secret", "devices that cannot be injected", "a node that is full",
         "a disk of another zone", "a missing claim", "a gate that a webhook set",
         "an error of the kube-scheduler", "a server"],
)  # fmt: skip
def test_a_node_is_avoided_only_if_the_cause_lies_there(stuck: PodRecord, avoided_s: dict[str, float]) -> None:
    servers = int(stuck.role is Role.PARAMETER_SERVER)
    given = observed(admitted(Phase.STARTING, *ONE, servers=servers), stuck, now=T0 + STUCK_S)
    ending = blocked_start.ending(given, SETTINGS)
    assert isinstance(ending, Eviction)
    assert {one.node: one.until.timestamp() - given.now for one in ending.fields["excluded_nodes"]} == avoided_s


@pytest.mark.parametrize(("now", "ended"), [(T0 + STUCK_S - 1, False), (T0 + STUCK_S, True)])
def test_a_stuck_pod_is_waited_for_half_a_minute(now: float, ended: bool) -> None:
    given = observed(admitted(Phase.STARTING, *ONE), pod(0, waiting="ErrImagePull: no"), now=now)
    assert blocked_start.deadline(given, SETTINGS) == T0 + STUCK_S
    assert (blocked_start.ending(given, SETTINGS) is not None) is ended


def refused(**changes: Any) -> TrainingJobStatus:
    status = admitted(Phase.STARTING, *ONE, **changes)
    after = reconcile(observed(status, creation_refusal="exceeded quota: team", now=T0 + 40), SETTINGS).status
    assert after is not None
    return after


def test_a_refusal_costs_nothing_and_its_words_are_in_a_condition() -> None:
    status = refused(faults=1)
    assert (status.phase, status.placement, status.failures, status.faults) == (Phase.PENDING, None, 0, 1)
    assert status.excluded_nodes == ()
    assert status.usage is not None
    assert (status.usage.gpu_milliseconds, status.usage.last_held is not None) == (0, True)
    (told,) = [one for one in status.conditions if one.type == "StartBlocked"]
    assert (told.status, told.reason, told.message) == ("True", "PodRefused", "exceeded quota: team")


TOO_LITTLE = (
    "exceeded quota: team, requested: requests.ephemeral-storage=50Gi, limited: requests.ephemeral-storage=40Gi"
)


@pytest.mark.parametrize(
    ("refusal", "resources", "told"),
    [
        (TOO_LITTLE, {}, "ask for 50Gi each; name less in spec.resources.scratch"),
        (TOO_LITTLE, {"scratch": "60Gi"}, "limited: requests.ephemeral-storage=40Gi"),
        ("exceeded quota: team, limited: pods=1", {}, "limited: pods=1"),
    ],
    ids=["a quota below the default", "a quota below what was asked for", "another quota"],
)
def test_a_refused_default_of_scratch_space_names_its_field(refusal: str, resources: dict[str, str], told: str) -> None:
    given = observed(admitted(Phase.STARTING, *ONE), creation_refusal=refusal, spec={"resources": resources})
    after = reconcile(given, SETTINGS).status
    assert after is not None
    assert next(one.message for one in after.conditions if one.type == "StartBlocked").endswith(told)


@pytest.mark.parametrize(
    ("before", "pause_s"),
    [
        (None, PAUSE_MIN_S),
        (BlockedStart(attempts=1, attempt=0, retry_at=T0, generation=1), 2 * PAUSE_MIN_S),
        (BlockedStart(attempts=4, attempt=0, retry_at=T0, generation=1), 16 * PAUSE_MIN_S),
        (BlockedStart(attempts=999, attempt=0, retry_at=T0, generation=1), PAUSE_MAX_S),
        (BlockedStart(attempts=999, attempt=0, retry_at=T0, generation=7), PAUSE_MIN_S),
    ],
    ids=["the first", "the second", "the fifth", "the thousandth", "the first after an edit"],
)
def test_pauses_grow_from_attempt_to_attempt(before: BlockedStart | None, pause_s: float) -> None:
    start = refused(blocked_start=before).blocked_start
    assert start is not None
    assert start.retry_at.timestamp() == T0 + 40 + pause_s


def test_an_attempt_that_runs_ends_the_pauses_and_the_condition() -> None:
    blocked = refused()
    status = admitted(
        Phase.STARTING, *ONE, attempts=2, blocked_start=blocked.blocked_start, conditions=blocked.conditions
    )
    after = reconcile(observed(status, pod(0, attempt=2, ready=True), now=T0 + 60), SETTINGS).status
    assert after is not None
    assert (after.phase, after.blocked_start) == (Phase.RUNNING, None)
    assert [one.status for one in after.conditions if one.type == "StartBlocked"] == ["False"]


def test_a_job_that_succeeds_before_it_is_seen_to_run_is_blocked_no_more() -> None:
    blocked = refused()
    status = admitted(
        Phase.STARTING, *ONE, attempts=2, blocked_start=blocked.blocked_start, conditions=blocked.conditions
    )
    after = finished(
        status, LifecycleEvent.COMPLETED, reason="Succeeded", message="", milli=1000, over_at=T0 + 1, now=T0 + 1
    )
    assert (after.phase, after.blocked_start) == (Phase.SUCCEEDED, None)
    assert [one.status for one in after.conditions if one.type == "StartBlocked"] == ["False"]


def test_an_attempt_after_a_blocked_one_is_charged_again() -> None:
    status = admitted(Phase.RUNNING, *ONE, attempts=2, blocked_start=refused().blocked_start)
    given = observed(status, now=T0 + 100, spec={"suspend": True})
    after = reconcile(given, SETTINGS).status
    assert after is not None
    assert after.usage is not None
    assert after.usage.gpu_milliseconds > 0


@pytest.mark.parametrize(
    ("generation", "until"), [(1, T0 + 9), (2, None)], ids=["the spec that was tried", "an edited spec"]
)
def test_an_edit_ends_the_pause(generation: int, until: float | None) -> None:
    start = BlockedStart(attempts=1, attempt=1, retry_at=T0 + 9, generation=1)
    assert blocked_start.paused_until(TrainingJobStatus(blocked_start=start), generation) == until


@pytest.mark.parametrize(
    ("attempts", "generation", "until"),
    [(2, 1, None), (3, 1, T0 + 9 + SPARES_S), (99, 1, T0 + 9 + SPARES_S), (99, 2, None)],
    ids=["two attempts", "three attempts", "many attempts", "an edited spec"],
)
def test_after_three_attempts_that_never_ran_a_job_evicts_nobody_for_an_hour(
    attempts: int, generation: int, until: float | None
) -> None:
    start = BlockedStart(attempts=attempts, attempt=1, retry_at=T0 + 9, generation=1)
    assert blocked_start.evicts_from(TrainingJobStatus(blocked_start=start), generation) == until


def test_excluded_nodes_are_kept_until_their_time_and_the_newest_reason_counts() -> None:
    first = blocked_start.excluded(TrainingJobStatus(), {"n2": "late", "n1": "late"}, T0 + 10, T0)
    assert [(one.node, one.reason) for one in first] == [("n1", "late"), ("n2", "late")]
    second = blocked_start.excluded(TrainingJobStatus(excluded_nodes=first), {"n2": "dead"}, T0 + 20, T0 + 9)
    assert [(one.node, one.reason) for one in second] == [("n1", "late"), ("n2", "dead")]
    assert blocked_start.excluded(TrainingJobStatus(excluded_nodes=first), {}, T0 + 20, T0 + 10) == ()


def test_an_image_of_other_processors_is_held_against_a_node_until_the_job_is_edited() -> None:
    given = observed(admitted(Phase.STARTING, *ONE), pod(0, waiting=FOR_AMD64), now=T0 + STUCK_S)
    ending = blocked_start.ending(given, SETTINGS)
    assert isinstance(ending, Eviction)
    status, generation = TrainingJobStatus(**ending.fields), given.record.generation
    soon, late = given.now + IMAGE_S - 1, given.now + IMAGE_S + 1
    found = [
        avoided(status, generation, soon),
        avoided(status, generation + 1, soon),
        avoided(status, generation, late),
    ]
    assert found == [{"n1"}, frozenset(), frozenset()]
