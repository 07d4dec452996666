"""How a job leaves its GPUs. Pure: no cluster, no clock."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant import contract, names
from cotenant.api.resources.trainingjob_status import CheckpointStatus, EvictionStatus, ExitStatus, TrainingJobStatus
from cotenant.controller.informers.pods.pod_record import PodRecord
from cotenant.controller.lifecycle import progress
from cotenant.controller.lifecycle.failure_classification import AttemptEnd, AttemptOutcome, exit_status
from cotenant.controller.lifecycle.observation import Observation
from cotenant.controller.lifecycle.reconcile import reconcile
from cotenant.controller.lifecycle.termination import (
    SUSPENDED_MESSAGE,
    UNREACHABLE_S,
    Ending,
    Eviction,
    Finish,
    completion,
    reconcile_evicting,
    terminate,
)
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import LifecycleEvent, Phase
from tests.controller.builders import T0, admitted, exited, observed, pod
from tests.support.reconcile_cases import ONE, SETTINGS, TWO, Case, check, check_written_once

LEAVING = [
    Case(
        "the pods of a job that must leave are ended, each once",
        observed(admitted(Phase.EVICTING, *TWO), pod(0, ready=True), pod(1, deleting=True)),
        delete=("train-1-0",),
    ),
    Case(
        "it waits again when the last one is gone",
        observed(admitted(Phase.EVICTING, *TWO)),
        phase=Phase.PENDING, reason="Preempted", says="for a/b", holds=False,
    ),
    Case(
        "a job that was suspended ends up suspended",
        observed(admitted(Phase.EVICTING, *ONE), spec={"suspend": True}),
        phase=Phase.SUSPENDED, reason="Suspended", holds=False,
    ),
    Case(
        "a job that finished while it was asked to leave has succeeded",
        observed(admitted(Phase.EVICTING, *ONE), pod(end=exited(0, results={"loss": 0.1}))),
        phase=Phase.SUCCEEDED, reason="Completed", holds=False,
    ),
    Case(
        "pods on a dead node are given their time",
        observed(admitted(Phase.EVICTING, *ONE), pod(deleting=True), unreachable_nodes={"n1": T0}),
        again=T0 + 50 + 30 + 60,
    ),
    Case(
        "and then are not waited for",
        observed(admitted(Phase.EVICTING, *ONE), pod(deleting=True), unreachable_nodes={"n1": T0}, now=T0 + 140),
        phase=Phase.PENDING, reason="Preempted", holds=False,
    ),
    Case(
        "a pod that was deleted by force is waited for while its agent still sees it",
        observed(admitted(Phase.EVICTING, *ONE), departed=(pod(),)),
        again=T0 + 50 + 30 + 60,
    ),
    Case(
        "and then not, so that a process that never ends does not keep its job away",
        observed(admitted(Phase.EVICTING, *ONE), departed=(pod(),), now=T0 + 140),
        phase=Phase.PENDING, reason="Preempted", holds=False,
    ),
    Case(
        "nobody waits for what a node that does not answer last said of a pod that was deleted by force",
        observed(admitted(Phase.EVICTING, *ONE), departed=(pod(),), unreachable_nodes={"n1": T0}),
        phase=Phase.PENDING, reason="Preempted", holds=False,
    ),
    Case(
        "a pod on a living node is waited for until it was asked with all force and had its time",
        observed(admitted(Phase.EVICTING, *ONE), pod(deleting=True), now=T0 + 9999),
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", LEAVING, ids=lambda case: case.name)
def test_a_job_that_leaves(case: Case) -> None:
    check(case)
    check_written_once(case)


def test_the_results_of_rank_0_become_those_of_the_job() -> None:
    ended = (pod(0, end=exited(0, results={"accuracy": 0.97})), pod(1, end=exited(0, results={"accuracy": 0.1})))
    step = reconcile(observed(admitted(Phase.RUNNING, *TWO), *ended), SETTINGS)
    assert step.status is not None
    assert (step.status.results, step.status.usage.gpu_seconds if step.status.usage else 0) == ({"accuracy": 0.97}, 80)


@pytest.mark.parametrize(
    ("code", "told", "want"),
    [
        (0, {"step": 400, "of": 400}, ("400/400 (100 %)", 400, 100, "done")),
        (0, {"step": 300, "of": 400}, ("300/400 (75 %)", 300, 75, "done")),
        (1, {"step": 290, "of": 400}, ("290/400 (72 %)", 290, 72, "failed")),
        (0, {"step": 500}, ("500", 500, None, "done")),
        (0, {}, ("268/400 (67 %)", 268, 67, "done")),
    ],
    ids=["all of it", "it stopped early", "it failed", "a total was never named", "it said nothing of its steps"],
)
def test_the_last_progress_is_what_rank_0_left_behind_not_what_it_answered_last(
    code: int, told: dict[str, int], want: tuple[str, int, int | None, str]
) -> None:
    polled = progress.summary(contract.Progress(state="training", step=268, of=400, rate=1, metrics={"loss": 0.2}))
    status = admitted(Phase.RUNNING, *ONE, progress=polled)
    ended = pod(end=exited(code, node_rank=0, **told))
    step = reconcile(observed(status, ended, spec={"retries": 0}), SETTINGS)
    assert step.status is not None
    written = step.status.progress
    assert written is not None
    assert (written.summary, written.step, written.percent, written.state) == want
    assert written.metrics == {"loss": 0.2}


TRAINING = progress.summary(
    contract.Progress(state="training", step=193, of=400, rate=2.0, last_checkpoint_step=100, last_checkpoint_at=T0)
)
SAVED: dict[str, Any] = {"reason": "Preempted", "last_checkpoint_step": 180}


def left(*pods: PodRecord, **observation: Any) -> TrainingJobStatus:
    """The status of a job that was asked to leave while it trained, once the last of its pods is gone."""
    status = admitted(Phase.EVICTING, *TWO, progress=TRAINING, workers="2", gpus="2 × 0.4")
    step = reconcile(observed(status, *pods, **observation), SETTINGS)
    assert step.status is not None
    return step.status


def test_a_job_that_was_asked_to_leave_says_what_became_of_its_ranks() -> None:
    kept = "asked to stop; its checkpoint of step 180 is kept"
    killed = f"{kept}; rank 1 did not leave within 25 s and had to be killed"
    first = pod(0, deleting=True, end=exited(143, **SAVED | {"node_rank": 0, "message": kept}))
    second = pod(1, deleting=True, end=exited(143, **SAVED | {"node_rank": 1, "message": killed}))
    status = left(first, gone=(second,))
    assert status.last_exit is not None
    assert (status.last_exit.code, status.last_exit.reason, status.last_exit.message) == (143, "Preempted", killed)


def test_the_exit_of_an_attempt_that_failed_is_not_replaced_by_that_of_pods_that_were_asked_to_end() -> None:
    told = ExitStatus(code=1, reason="UserError", message="rank 0 raised", at=T0 + 60)
    status = admitted(Phase.EVICTING, *TWO, last_exit=told)
    step = reconcile(observed(status, pod(1, end=exited(143, **SAVED | {"node_rank": 1}))), SETTINGS)
    assert step.status is not None
    assert step.status.last_exit == told


def test_progress_of_a_job_that_left_has_its_last_checkpoint_and_no_time_that_is_left() -> None:
    status = left(gone=(pod(0, end=exited(143, **SAVED | {"node_rank": 0, "step": 195, "of": 400})),))
    shown = status.progress
    assert shown is not None
    assert (shown.summary, shown.remaining_seconds, shown.state) == ("195/400 (48 %)", None, "stopped")
    assert shown.last_checkpoint == CheckpointStatus(step=180)
    silent = left().progress
    assert silent is not None
    assert (silent.summary, silent.remaining_seconds, silent.last_checkpoint) == (
        "193/400 (48 %)", None, TRAINING.last_checkpoint,
    )  # fmt: skip


def test_a_job_that_leaves_asks_again_for_what_its_spec_says() -> None:
    assert (left(spec={"workers": 4}).workers, left(spec={"workers": 4}).gpus) == ("4", "4 × 0.4")


@pytest.mark.parametrize(
    ("gone", "message"),
    [
        ((), f"{SUSPENDED_MESSAGE}; its checkpoint of step 100 is kept"),
        ((pod(0, end=exited(143, **SAVED)),), f"{SUSPENDED_MESSAGE}; its checkpoint of step 180 is kept"),
    ],
    ids=["as it was last told", "as its pod left it"],
)
def test_a_suspended_job_names_the_checkpoint_that_is_kept(gone: tuple[PodRecord, ...], message: str) -> None:
    assert left(gone=gone, spec={"suspend": True}).message == message


def test_a_suspended_job_without_a_checkpoint_names_none() -> None:
    status = admitted(Phase.EVICTING, *ONE)
    step = reconcile(observed(status, spec={"suspend": True}), SETTINGS)
    assert step.status is not None
    assert step.status.message == SUSPENDED_MESSAGE


def given(reason: str, o: Observation) -> Observation:
    """The observation of a job that somebody suspended with this reason."""
    assert o.record.job is not None
    metadata = o.record.job.metadata.model_copy(update={"annotations": {names.ANNOTATION_SUSPEND_REASON: reason}})
    record = replace(o.record, job=o.record.job.model_copy(update={"metadata": metadata}))
    return replace(o, record=record)


@pytest.mark.parametrize(
    "status",
    [admitted(Phase.EVICTING, *ONE), TrainingJobStatus(phase=Phase.PENDING), None],
    ids=["it leaves its GPUs", "it waits", "it is suspended already"],
)
def test_a_suspended_job_says_the_reason_that_was_given(status: TrainingJobStatus | None) -> None:
    suspended = TrainingJobStatus(phase=Phase.SUSPENDED, reason="Suspended", message=SUSPENDED_MESSAGE)
    o = given("it fills the disk", observed(status or suspended, spec={"suspend": True}))
    step = reconcile(o, SETTINGS)
    assert step.status is not None
    assert step.status.message == f"{SUSPENDED_MESSAGE}; the reason given: it fills the disk"
    assert reconcile(given("it fills the disk", observed(step.status, spec={"suspend": True})), SETTINGS).status is None


@pytest.mark.parametrize(("reason", "clears"), [("it fills the disk", True), ("", False)])
def test_a_job_that_is_resumed_loses_the_reason_of_its_suspension(reason: str, clears: bool) -> None:
    o = observed(TrainingJobStatus(phase=Phase.SUSPENDED, reason="Suspended"), spec={"suspend": False})
    step = reconcile(given(reason, o) if reason else o, SETTINGS)
    assert step.status is not None
    assert (step.status.reason, step.clear_suspend_reason) == ("Resumed", clears)


@pytest.mark.parametrize(
    ("kind", "suspend", "clears"),
    [
        pytest.param("Suspended", False, True, id="resumed before its last pod was gone"),
        pytest.param("Suspended", True, False, id="still suspended"),
        pytest.param("Preempted", False, False, id="not suspended yet: the reason was written first"),
    ],
)
def test_a_job_that_is_resumed_while_it_leaves_loses_the_reason_of_its_suspension(
    kind: str, suspend: bool, clears: bool
) -> None:
    status = admitted(Phase.EVICTING, *ONE, eviction=EvictionStatus(kind=kind, message="leaves", at=T0))
    step = reconcile(given("it fills the disk", observed(status, spec={"suspend": suspend})), SETTINGS)
    assert (step.status is not None, step.clear_suspend_reason) == (True, clears)


LEAVE = Eviction(event=LifecycleEvent.EVICTED, kind="Drained", message="was evicted")


def running(*, end: bool = False) -> Observation:
    return observed(admitted(Phase.RUNNING, *ONE), pod(end=exited(0)) if end else pod(ready=True))


@pytest.mark.parametrize(
    ("ending", "warning"),
    [
        (LEAVE, False),
        (Eviction(event=LifecycleEvent.EVICTED, kind="PlacementLost", message="", warning=True), True),
        (Eviction(event=LifecycleEvent.CRASHED, kind="UserError", message=""), True),
        (Eviction(event=LifecycleEvent.START_TIMED_OUT, kind="StartTimeout", message=""), True),
        (Finish(event=LifecycleEvent.COMPLETED, reason="Completed", message=""), False),
        (Finish(event=LifecycleEvent.GAVE_UP, reason="UserError", message=""), True),
        (Finish(event=LifecycleEvent.DEADLINE, reason="MaxRuntimeExceeded", message=""), True),
    ],
    ids=lambda value: value.event if isinstance(value, Eviction | Finish) else "",
)
def test_an_end_that_the_tenant_did_not_want_is_a_warning(ending: Ending, warning: bool) -> None:
    o = running() if ending.event is not LifecycleEvent.START_TIMED_OUT else observed(admitted(Phase.STARTING, *ONE))
    event = terminate(o, ending).event
    assert event is not None
    assert event.warning is warning


def test_a_job_whose_pods_still_run_keeps_its_gpus_until_they_are_gone() -> None:
    result = terminate(running(), LEAVE)
    assert result.status is not None
    assert (result.status.phase, result.status.placement is not None) == (Phase.EVICTING, True)
    assert [one.name for one in result.delete_pods] == ["train-1-0"]


def test_a_job_of_which_nothing_runs_is_free_by_the_same_write() -> None:
    result = terminate(running(end=True), LEAVE)
    assert result.status is not None
    assert (result.status.phase, result.status.placement) == (Phase.PENDING, None)
    assert result.delete_pods == ()


def test_gpus_are_charged_until_the_last_pod_ended() -> None:
    o = observed(admitted(Phase.RUNNING, *ONE), pod(end=exited(0, at=T0 + 40)), now=T0 + 100)
    result = terminate(o, Finish(event=LifecycleEvent.COMPLETED, reason="Completed", message=""))
    assert result.status is not None
    assert result.status.usage is not None
    assert (result.status.usage.gpu_milliseconds, result.status.usage.run_seconds) == (800 * 40, 30)


@pytest.mark.parametrize(
    ("now", "released", "requeue_at"),
    [
        (T0 + 50, False, T0 + 50 + 30 + UNREACHABLE_S),
        (T0 + 50 + 30 + UNREACHABLE_S - 1, False, T0 + 50 + 30 + UNREACHABLE_S),
        (T0 + 50 + 30 + UNREACHABLE_S, True, None),
    ],
    ids=["asked just now", "a second before", "past its grace and a minute"],
)
def test_pods_on_a_node_that_does_not_answer_have_their_grace_period_and_a_minute(
    now: float, released: bool, requeue_at: float | None
) -> None:
    o = observed(
        admitted(Phase.EVICTING, *ONE),
        pod(deleting=True),
        unreachable_nodes={"n1": T0},
        now=now,
        spec={"gracePeriod": "30s"},
    )
    result = reconcile_evicting(o, SETTINGS)
    assert (result.status is not None, result.requeue_at) == (released, requeue_at)


def test_the_administrators_limit_bounds_the_wait_for_a_node_that_does_not_answer() -> None:
    o = observed(
        admitted(Phase.EVICTING, *ONE), pod(deleting=True), unreachable_nodes={"n1": T0}, spec={"gracePeriod": "24h"}
    )
    assert reconcile_evicting(o, Settings(max_grace_period_s=60)).requeue_at == T0 + 50 + 60 + UNREACHABLE_S


def test_a_pod_on_a_node_that_answers_is_waited_for_beside_one_that_does_not() -> None:
    two = admitted(Phase.EVICTING, ("n1", 1), ("n2", 1))
    pods = (pod(0, deleting=True), pod(1, node="n2", deleting=True))
    result = reconcile_evicting(observed(two, *pods, unreachable_nodes={"n1": T0}, now=T0 + 9999), SETTINGS)
    assert (result.status, result.requeue_at) == (None, None)


@pytest.mark.parametrize(
    ("step", "of", "message"),
    [
        (400, 400, "2 workers finished"),
        (399, 400, "2 workers finished, at step 399 of 400"),
        (7, 0, "2 workers finished"),
    ],
)
def test_a_completion_says_where_it_stopped_unless_that_is_the_last_step(step: int, of: int, message: str) -> None:
    done = pod(end=exited(0, step=step, of=of, results={"loss": 0.5}))
    o = observed(admitted(Phase.RUNNING, *ONE), done)
    end = AttemptEnd(outcome=AttemptOutcome.COMPLETED, exit=exit_status(done), pod=done)
    finish = completion(o, end)
    assert (finish.message, finish.fields["results"]) == (message, {"loss": 0.5})


def test_a_job_whose_spec_cannot_be_read_has_the_usual_grace_period() -> None:
    o = observed(
        admitted(Phase.EVICTING, *ONE),
        pod(deleting=True),
        unreachable_nodes={"n1": T0},
        problem="spec.gpu: is required",
    )
    assert reconcile_evicting(o, SETTINGS).requeue_at == T0 + 50 + 30 + 60


@pytest.mark.parametrize(("fields", "state"), [({}, "stopping"), ({"last_exit": None}, "failed")])
def test_progress_of_an_attempt_that_failed_says_so(fields: dict[str, Any], state: str) -> None:
    o = observed(admitted(Phase.RUNNING, *ONE, progress=TRAINING), pod(ready=True))
    ending = Eviction(event=LifecycleEvent.CRASHED, kind="UserError", message="", fields=fields)
    result = terminate(o, ending)
    assert result.status is not None
    assert result.status.progress is not None
    assert result.status.progress.state == state


def test_a_completion_of_which_no_pod_is_left_has_no_results() -> None:
    end = AttemptEnd(outcome=AttemptOutcome.COMPLETED, exit=ExitStatus(code=0, reason="Completed", message=""))
    finish = completion(observed(admitted(Phase.RUNNING, *TWO)), end)
    assert (finish.message, finish.fields) == ("2 workers finished", {"results": None, "last_exit": end.exit})


@pytest.mark.parametrize(
    ("at", "replaced"),
    [(T0 - 60, True), (T0, False), (T0 + 60, False), (None, False)],
    ids=["of the attempt before", "as it was admitted", "of this attempt", "of which the time is not known"],
)
def test_the_exit_of_the_attempt_before_gives_way_to_those_of_pods_that_were_asked_to_end(
    at: float | None, replaced: bool
) -> None:
    told = ExitStatus(code=1, reason="UserError", message="rank 0 raised", at=at)
    first = pod(0, end=exited(143, **SAVED | {"node_rank": 0, "message": "asked to stop"}))
    second = pod(1, end=exited(137, reason="Killed", node_rank=1, message="killed"))
    status = admitted(Phase.EVICTING, *TWO, last_exit=told)
    step = reconcile(observed(status, second, first), SETTINGS)
    assert step.status is not None
    assert step.status.last_exit is not None
    shown = step.status.last_exit
    departed = (143, "Preempted", "asked to stop; killed")
    assert (shown.code, shown.reason, shown.message) == (departed if replaced else (1, "UserError", "rank 0 raised"))
