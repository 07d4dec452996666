"""The evaluator beside a job that runs: its pod, what is said of it, and that it changes nothing of the job. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant.api.conversion.to_core import unix_seconds
from cotenant.api.resources.trainingjob_status import EvaluatorStatus, TrainingJobStatus
from cotenant.controller.informers.job_memory import UseFinding
from cotenant.controller.informers.pods.disruption import Disruption
from cotenant.controller.informers.pods.pod_record import PodRecord
from cotenant.controller.lifecycle.observation import Observation, ReconcileResult
from cotenant.controller.lifecycle.reconcile import reconcile
from cotenant.core.model.lifecycle import Phase
from cotenant.decision_log.low_use import LowUse
from tests.controller.builders import T0, admitted, evaluator, exited, observed, pod
from tests.support.reconcile_cases import ONE, SETTINGS

WITH: dict[str, Any] = {"evaluator": {}}
RANKS = pod(0, ready=True)
RUNS = EvaluatorStatus(state="Running", pods=1, retry_at=T0 + 20)


def running(*pods: PodRecord, known: EvaluatorStatus | None = RUNS, now: float = T0 + 100, **facts: Any) -> Observation:
    status = admitted(Phase.RUNNING, *ONE, evaluator=known)
    return observed(status, *pods, now=now, spec=facts.pop("spec", WITH), **facts)


def after(o: Observation) -> tuple[ReconcileResult, EvaluatorStatus]:
    result = reconcile(o, SETTINGS)
    found = (result.status or o.status).evaluator
    assert found is not None
    return result, found


def test_it_is_made_when_the_ranks_run_and_not_before() -> None:
    starting = observed(admitted(Phase.STARTING, *ONE), pod(0), spec=WITH)
    assert not reconcile(starting, SETTINGS).create_evaluator
    result, found = after(running(RANKS, known=None))
    assert (result.create_evaluator, result.create_pods, found.state, found.pods) == (True, False, "Starting", 1)


def test_a_job_without_one_makes_none() -> None:
    assert not reconcile(running(RANKS, known=None, spec={}), SETTINGS).acts


def test_one_that_runs_costs_no_write() -> None:
    assert not reconcile(running(RANKS, evaluator(nodes=1, ready=True)), SETTINGS).acts


OOM = replace(exited(137), reason="OOMKilled")
STATES = [
    ("its container starts", {}, "Starting", ""),
    ("its image is pulled", {"waiting": ""}, "Starting",
     "node cpu pulls the image of pod train-1-e0 for more than 30 s"),
    ("it is ready", {"ready": True}, "Running", ""),
    ("it fits nowhere", {"node": "", "waiting": "Unschedulable: no room"}, "Starting",
     "evaluator pod train-1-e0 does not start: Unschedulable: no room"),
    ("its program failed", {"again": exited(1, message="ValueError: no such model"),
                            "waiting": "CrashLoopBackOff: back-off 10s"}, "Restarting", "ValueError: no such model"),
    ("it is short of memory", {"again": OOM, "waiting": "CrashLoopBackOff: back-off 10s"}, "Restarting",
     "pod train-1-e0 used more memory than it has; ask for more in spec.evaluator.resources.memory"),
    ("it runs again", {"ready": True, "again": exited(1, message="ValueError: no such model"), "restarts": 1},
     "Running", "ValueError: no such model"),
    ("its program has ended", {"end": exited(0)}, "Ended", "its program ended with 0"),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "state", "says"), [case[1:] for case in STATES], ids=[case[0] for case in STATES])
def test_the_status_says_what_it_does(facts: dict[str, Any], state: str, says: str) -> None:
    known = EvaluatorStatus(pods=1)
    result, found = after(running(RANKS, evaluator(nodes=1, **facts), known=known))
    assert (found.state, found.message, found.restarts) == (state, says, facts.get("restarts", 0))
    assert (result.status or TrainingJobStatus()).phase is Phase.RUNNING
    assert not result.create_evaluator


def test_its_failure_is_an_event_and_leaves_the_job_as_it_is() -> None:
    failed = evaluator(nodes=1, again=exited(1, message="no such model"), waiting="CrashLoopBackOff: back-off")
    result, _ = after(running(RANKS, failed))
    assert result.event is not None
    assert (result.event.reason, result.event.warning) == ("EvaluatorFailed", True)
    assert result.event.message == "the evaluator failed and is started again: no such model"
    assert (result.delete_pods, result.status and result.status.failures) == ((), 0)


def test_its_failure_is_told_also_if_the_step_has_other_news() -> None:
    """The status says from then on that it was told, so that an Event that is dropped never comes."""
    failed = evaluator(nodes=1, again=exited(1, message="no such model"), waiting="CrashLoopBackOff: back-off")
    finding = UseFinding(attempt=1, kind=LowUse.LOADER_BOUND, message="waits for data")
    result, _ = after(running(RANKS, failed, missing_class="gold", low_use=finding))
    assert result.event is not None
    told = [one.reason for one in (result.event, *result.more_events)]
    assert told == ["LowUse", "PriorityClassMissing", "EvaluatorFailed"]


def test_a_failure_that_was_told_is_told_once() -> None:
    failed = evaluator(nodes=1, again=exited(1, message="no such model"), waiting="CrashLoopBackOff: back-off")
    first, _ = after(running(RANKS, failed))
    assert first.status is not None
    assert not reconcile(running(RANKS, failed, known=first.status.evaluator), SETTINGS).acts


def test_a_long_failure_is_told_once_too() -> None:
    failed = evaluator(nodes=1, again=exited(1, message="no such model " * 100), waiting="CrashLoopBackOff: back-off")
    first, _ = after(running(RANKS, failed))
    assert first.status is not None
    written = TrainingJobStatus.model_validate(first.status.to_document()).evaluator
    assert not reconcile(running(RANKS, failed, known=written), SETTINGS).acts


def test_a_pod_that_failed_for_good_gives_its_name_to_the_next() -> None:
    evicted = evaluator(nodes=1, end=replace(exited(-1), reason="Evicted"))
    result, found = after(running(RANKS, evicted))
    assert ([one.name for one in result.delete_pods], found.state) == (["train-1-e0"], "Restarting")
    again, found = after(running(RANKS, known=found))
    assert (again.create_evaluator, found.pods) == (True, 2)


def test_a_pod_that_somebody_deleted_is_made_again_and_the_job_is_not() -> None:
    drained = Disruption(reason="Drained", description="was evicted by a drain", by_kubelet=False)
    result, found = after(running(RANKS, disruptions={"train-1-e0": drained}))
    assert (result.create_evaluator, found.state, found.reason) == (True, "Restarting", "Drained")
    assert found.message == "pod train-1-e0 was evicted by a drain"
    assert (result.status or TrainingJobStatus()).phase is Phase.RUNNING


@pytest.mark.parametrize(("pods", "pause_s"), [(0, 10), (1, 20), (2, 40), (5, 300), (40, 300)])
def test_pauses_between_its_pods_grow_to_five_minutes(pods: int, pause_s: int) -> None:
    known = EvaluatorStatus(state="Restarting", pods=pods)
    _, found = after(running(RANKS, known=known))
    assert unix_seconds(found.retry_at) == T0 + 100 + pause_s


def test_before_its_time_none_is_made_and_the_job_is_looked_at_again() -> None:
    known = EvaluatorStatus(state="Restarting", pods=3, retry_at=T0 + 130)
    result = reconcile(running(RANKS, known=known), SETTINGS)
    assert (result.create_evaluator, result.requeue_at, result.status) == (False, T0 + 130, None)


def test_a_refused_pod_is_told_in_the_words_of_who_refused_and_ends_nothing() -> None:
    known = EvaluatorStatus(state="Starting", pods=1, retry_at=T0 + 110)
    result, found = after(running(RANKS, known=known, evaluator_refusal="pods/train-1-e0 was refused (403): quota"))
    assert (found.state, found.reason) == ("Starting", "PodRefused")
    assert found.message == "pods/train-1-e0 was refused (403): quota"
    assert (result.create_evaluator, result.delete_pods) == (False, ())


def test_one_of_an_earlier_attempt_has_to_be_gone_first() -> None:
    assert not reconcile(running(RANKS, evaluator(nodes=1, attempt=0), known=None), SETTINGS).create_evaluator


def test_one_that_ended_is_not_made_again() -> None:
    known = EvaluatorStatus(state="Ended", pods=1)
    assert not reconcile(running(RANKS, known=known), SETTINGS).acts


# -- the end of the job ---------------------------------------------------------------------------------------------

DONE = pod(0, end=exited(0))
EVALUATES = evaluator(nodes=1, ready=True)
LONGER: dict[str, Any] = {"evaluator": {"finishWithin": "10m"}}


@pytest.mark.parametrize(
    ("spec", "deleted", "state"), [(WITH, ["train-1-e0"], "Stopped"), (LONGER, [], "Running")], ids=["at once", "10m"]
)
def test_the_success_of_the_job_waits_for_no_evaluator(spec: dict[str, Any], deleted: list[str], state: str) -> None:
    result, found = after(running(DONE, EVALUATES, spec=spec))
    assert result.status is not None
    assert (result.status.phase, result.status.placement) == (Phase.SUCCEEDED, None)
    assert ([one.name for one in result.delete_pods], found.state) == (deleted, state)


def finished(*pods: PodRecord, now: float, phase: Phase = Phase.SUCCEEDED, **spec: Any) -> Observation:
    status = TrainingJobStatus(phase=phase, attempts=1, finished_at=T0 + 100, evaluator=RUNS)
    return observed(status, *pods, now=now, spec=LONGER | spec)


def test_it_may_go_on_for_its_time_after_the_success_and_no_longer() -> None:
    within = reconcile(finished(DONE, EVALUATES, now=T0 + 699), SETTINGS)
    assert (within.delete_pods, within.requeue_at, within.status) == ((), T0 + 700, None)
    result, found = after(finished(DONE, EVALUATES, now=T0 + 700))
    assert ([one.name for one in result.delete_pods], found.state) == (["train-1-e0"], "Stopped")


def test_the_job_is_deleted_at_its_time_whatever_the_evaluator_does() -> None:
    result = reconcile(finished(DONE, EVALUATES, now=T0 + 130, ttlAfterFinished="30s"), SETTINGS)
    assert (result.delete_job, [one.name for one in result.delete_pods]) == (True, ["train-1-e0"])
    before = reconcile(finished(DONE, EVALUATES, now=T0 + 110, ttlAfterFinished="30s"), SETTINGS)
    assert before.requeue_at == T0 + 130


def test_one_that_is_done_before_its_time_is_over_is_said_to_have_ended() -> None:
    _, found = after(finished(DONE, evaluator(nodes=1, end=exited(0)), now=T0 + 300))
    assert found.state == "Ended"


def test_a_job_that_failed_leaves_it_no_time() -> None:
    result, found = after(finished(EVALUATES, now=T0 + 101, phase=Phase.FAILED))
    assert ([one.name for one in result.delete_pods], found.state) == (["train-1-e0"], "Stopped")


def test_an_evicted_job_gives_its_gpus_back_while_the_evaluator_still_ends() -> None:
    leaving = replace(EVALUATES, deleting=True)
    result, found = after(observed(admitted(Phase.EVICTING, *ONE, evaluator=RUNS), leaving, spec=LONGER))
    assert result.status is not None
    assert (result.status.phase, result.status.placement) == (Phase.PENDING, None)
    assert admitted(Phase.EVICTING, *ONE).evaluator is None
    assert found is not None


def test_an_evaluator_neither_makes_a_gang_nor_ends_one() -> None:
    starting = observed(admitted(Phase.STARTING, *ONE), evaluator(nodes=1, ready=True), spec=WITH)
    assert reconcile(starting, SETTINGS).create_pods
    ended = running(RANKS, evaluator(nodes=1, end=exited(1)))
    assert (ended.end, ended.size, sorted(ended.gang)) == (None, 1, [0])
