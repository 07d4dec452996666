"""What follows from a step: what is written, deleted and made, and which Events say so."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from datetime import UTC, datetime
from unittest.mock import patch

import pytest

from cotenant import names
from cotenant.api.resources.trainingjob_status import Condition
from cotenant.controller.client.kube import (
    EVENTS,
    TRAINING_JOBS,
    Outcome,
    RefusedError,
    Reply,
)
from cotenant.controller.execution.writes.executor import REFUSED_PAUSE_S, ExecutionResult
from cotenant.controller.lifecycle import status_transitions
from cotenant.controller.lifecycle.observation import EventToRecord, ForcedDeletion, ReconcileResult
from cotenant.core.model.plan import Admit, Reason, Verdict
from tests.controller.builders import placement_on
from tests.controller.execution.replica import (
    Replica,
    phase,
    status,
    submit,
    writes,
)
from tests.controller.execution.writes.executor.decided_jobs import AT_ONCE, COMMIT, decided, record_of, running
from tests.support.api_faults import Fault

pytestmark = pytest.mark.looptime


async def test_a_backfilled_job_is_told_by_when_it_is_to_have_ended_and_held_to_it() -> None:
    replica, record, action = await decided()
    promised = dataclasses.replace(action, backfilled_until=1_700_000_000.0)
    await replica.operator.loop.action_executor.admit(record, promised)
    replica.observe()
    until = "2023-11-14T22:13:20Z"
    assert status(replica.kube)["placement"]["backfilledUntil"] == until
    assert status(replica.kube)["message"].endswith(
        f"; its GPUs are kept for another job: if it has not ended by {until}, as it said, it may have to leave"
    )
    job = replica.operator.loop.cluster.read_job(record_of(replica), 0.0).job
    assert (job and job.backfilled_until) == 1_700_000_000.0


async def test_a_reason_to_wait_is_written_once() -> None:
    replica, record, _ = await decided()
    verdict = Verdict(job=record.key, reason=Reason.NO_QUOTA, message="no quota")
    await replica.operator.loop.action_executor.report_pending(record, verdict)
    await replica.operator.loop.action_executor.report_pending(record_of(replica), verdict)
    assert writes(replica.kube) == [COMMIT]
    assert (phase(replica.kube), status(replica.kube)["pending"]["message"]) == ("Pending", "no quota")


async def events(replica: Replica) -> list[str]:
    """Messages of the Events that were recorded so far."""
    task = asyncio.create_task(replica.operator.event_recorder.run())
    await asyncio.sleep(2.0)
    task.cancel()
    return [one["message"] for one in (await replica.kube.list(EVENTS)).items]


async def test_a_reason_to_wait_that_only_has_another_message_is_no_event() -> None:
    replica, record, _ = await decided()
    for message in ("no quota", "no quota at all"):
        verdict = Verdict(job=record.key, reason=Reason.NO_QUOTA, message=message)
        await replica.operator.loop.action_executor.report_pending(record_of(replica), verdict)
    assert (await events(replica), status(replica.kube)["message"]) == (["no quota"], "no quota at all")


async def test_a_reason_to_wait_that_was_not_written_is_no_event() -> None:
    replica, record, _ = await decided(Fault(call=COMMIT, answer=Reply(Outcome.REFUSED, code=403)))
    verdict = Verdict(job=record.key, reason=Reason.NO_QUOTA, message="no quota")
    with pytest.raises(RefusedError):
        await replica.operator.loop.action_executor.report_pending(record, verdict)
    assert await events(replica) == []


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (1, "admitted: 1 worker on n1"),
        (4, "admitted: 4 workers on n1, n2, n3, n4"),
        (5, "admitted: 5 workers on n1, n2, n3 and 2 more nodes"),
        (9, "admitted: 9 workers on n1, n2, n3 and 6 more nodes"),
    ],
)
async def test_an_admission_names_up_to_four_nodes(nodes: int, message: str) -> None:
    replica, record, _ = await decided()
    placement = placement_on(*((f"n{number + 1}", 1) for number in range(nodes)))
    await replica.operator.loop.action_executor.admit(record, Admit(job=record.key, placement=placement))
    assert status(replica.kube)["message"] == message


async def test_an_admission_reports_a_grace_period_that_is_cut() -> None:
    replica = Replica()
    document = submit(replica.kube)
    replica.kube.put(TRAINING_JOBS, document | {"spec": document["spec"] | {"gracePeriod": "24h"}})
    replica.observe()
    record = record_of(replica)
    await replica.operator.loop.action_executor.admit(record, Admit(job=record.key, placement=placement_on(("n1", 1))))
    assert status(replica.kube)["message"] == (
        "admitted: 1 worker on n1; its gracePeriod of 24h is cut to 10m, the most in this cluster"
    )


async def test_pods_that_are_asked_again_are_in_an_event_and_the_job_is_looked_at_when_it_is_due() -> None:
    replica, record = await running()
    pods = tuple(replica.operator.cache.pods_of(record.id).values())
    event = EventToRecord(reason="GracePeriodShortened", message="it has 30s", warning=True)
    again = ForcedDeletion(pods=pods, grace_s=30, event=event)
    executor = replica.operator.loop.executor
    with patch.object(executor.event_recorder, "record") as recorded:
        result = await executor.apply(record, ReconcileResult(forced_deletions=(again,), requeue_at=9.0))
    assert (result, [call.args[1] for call in recorded.call_args_list]) == (ExecutionResult(9.0), [event])
    assert [call for call in replica.kube.calls if call.startswith("DELETE")] == [f"DELETE pods/{p.name}" for p in pods]


async def test_a_deletion_that_a_policy_refuses_is_an_event_and_is_tried_again_after_a_pause() -> None:
    replica, record = await running()
    refusal = Reply(Outcome.REFUSED, message="denied by a policy", code=403)
    replica.kube.faults.add(Fault(call="DELETE pods/train-1-0", answer=refusal))
    executor = replica.operator.loop.executor
    pods = tuple(replica.operator.cache.pods_of(record.id).values())
    with patch.object(executor.event_recorder, "record") as recorded:
        result = await executor.apply(record, ReconcileResult(delete_pods=pods))
    assert result == ExecutionResult(time.time() + REFUSED_PAUSE_S)
    assert [call.args[1] for call in recorded.call_args_list] == [
        EventToRecord(
            reason="DeletionRefused",
            message="pod train-1-0 could not be deleted (403): denied by a policy",
            warning=True,
        )
    ]


async def test_an_admission_measures_how_long_the_job_has_waited() -> None:
    replica, record, action = await decided()
    await asyncio.sleep(7.0)
    await replica.operator.loop.action_executor.admit(record, action)
    sample = replica.operator.metrics.registry.get_sample_value
    waited = [sample(f"cotenant_job_wait_seconds_{part}", {"queue": "red"}) for part in ("count", "sum")]
    assert waited == [1.0, pytest.approx(7.0, abs=0.1)]


async def test_the_wait_of_a_job_that_ran_before_begins_when_it_is_requeued() -> None:
    """kubernetes-sigs/kueue#14623: otherwise a job that was evicted after a week has waited for a week."""
    replica, record, action = await decided()
    await asyncio.sleep(7.0)
    requeued = {
        "type": "Admitted",
        "status": "False",
        "reason": "Preempted",
        "message": "",
        "lastTransitionTime": datetime.fromtimestamp(time.time(), UTC),
    }
    before = record.status.model_copy(update={"attempts": 1, "conditions": (Condition.model_validate(requeued),)})
    await asyncio.sleep(2.0)
    await replica.operator.loop.action_executor.admit(dataclasses.replace(record, status=before), action)
    sample = replica.operator.metrics.registry.get_sample_value
    assert sample("cotenant_job_wait_seconds_sum", {"queue": "red"}) == pytest.approx(2.0, abs=0.1)


async def test_a_job_whose_spec_became_unreadable_is_admitted_without_a_measure_of_its_wait() -> None:
    replica, record, action = await decided()
    await replica.operator.loop.action_executor.admit(dataclasses.replace(record, job=None), action)
    sample = replica.operator.metrics.registry.get_sample_value
    assert (phase(replica.kube), sample("cotenant_job_wait_seconds_count", {"queue": "red"})) == ("Starting", None)


async def test_of_a_committed_placement_that_cannot_be_carried_out_no_pod_is_made() -> None:
    replica, record, _ = await decided()
    action = Admit(job=record.key, placement=placement_on(("n1", 1)))
    assert await replica.operator.loop.action_executor.admit(record, action) == AT_ONCE
    assert (writes(replica.kube), phase(replica.kube)) == ([COMMIT], "Starting")


async def test_of_a_job_that_is_gone_after_its_commit_no_pod_is_made() -> None:
    replica, record, action = await decided()
    cache = replica.operator.cache
    gone = Fault(call=COMMIT, first=lambda: cache.remove(TRAINING_JOBS, "red", "train", record.uid))
    replica.kube.faults.add(gone)
    assert await replica.operator.loop.action_executor.admit(record, action) == AT_ONCE
    assert writes(replica.kube) == [COMMIT]


async def test_only_a_step_that_has_an_event_records_one() -> None:
    replica, *_ = await decided()
    executor = replica.operator.loop.executor
    for reason, event in (("First", None), ("Second", EventToRecord(reason="Second", message="something new"))):
        written = record_of(replica)
        status = status_transitions.explained(written.status, reason=reason, message=reason, now=time.time())
        await executor.apply(written, ReconcileResult(status=status, event=event))
    assert await events(replica) == ["something new"]


async def test_all_events_of_a_step_are_recorded() -> None:
    replica, record, _ = await decided()
    step = ReconcileResult()
    for message in ("the first", "the second", "the third"):
        step = step.with_event(EventToRecord(reason="News", message=message)).with_event(None)
    await replica.operator.loop.executor.apply(record, step)
    assert sorted(await events(replica)) == ["the first", "the second", "the third"]


async def test_only_pods_that_run_and_were_not_asked_yet_are_ended() -> None:
    replica, record = await running()
    pods = replica.operator.cache.pods_of(record.id)
    await replica.operator.loop.executor.pod_deleter.delete([pods["train-1-0"]])
    del replica.kube.calls[:]
    assert await replica.operator.loop.executor.end_pods(record) == AT_ONCE
    assert writes(replica.kube) == ["DELETE pods/train-1-1"]


@pytest.mark.parametrize("refused", [False, True])
async def test_orphans_are_looked_at_again_when_they_are_due_or_after_a_pause_where_they_may_not_be_ended(
    refused: bool,
) -> None:
    replica, record = await running()
    pods = tuple(replica.operator.cache.pods_of(record.id).values())
    replica.kube.remove(TRAINING_JOBS, "train", "red")
    if refused:
        refusal = Reply(Outcome.REFUSED, message="denied by a policy", code=403)
        replica.kube.faults.add(Fault(call="DELETE pods/train-1-0", answer=refusal))
    result = await replica.operator.loop.executor.delete_orphans(
        record.id, ReconcileResult(delete_pods=pods, requeue_at=9.0)
    )
    assert result == ExecutionResult(time.time() + REFUSED_PAUSE_S if refused else 9.0)


async def test_a_write_counts_as_a_transition_where_the_phase_changes() -> None:
    replica, record, action = await decided()
    executor, registry = replica.operator.loop.executor, replica.operator.metrics.registry

    def counted() -> list[tuple[dict[str, str], float]]:
        samples = [one for family in registry.collect() for one in family.samples]
        return [(one.labels, one.value) for one in samples if one.name.endswith("transitions_total")]

    await replica.operator.loop.action_executor.admit(record, action)
    assert counted() == [({"phase": "Starting"}, 1.0)]
    written = record_of(replica)
    same = status_transitions.explained(written.status, reason="Slow", message="an image is pulled", now=time.time())
    await executor.apply(written, ReconcileResult(status=same))
    assert counted() == [({"phase": "Starting"}, 1.0)]


async def test_an_event_without_a_write_of_the_status_is_recorded() -> None:
    replica, record, _ = await decided()
    told = EventToRecord(reason="StatusUnreadable", message="left alone", warning=True)
    result = ReconcileResult(event=told, requeue_at=9.0)
    assert await replica.operator.loop.executor.apply(record, result) == ExecutionResult(9.0)
    assert (writes(replica.kube), await events(replica)) == ([], ["left alone"])


@pytest.mark.parametrize("held_again", [False, True])
async def test_the_reason_of_a_suspension_goes_with_it_unless_somebody_has_written_since(held_again: bool) -> None:
    replica = Replica()
    submit(replica.kube, annotations={names.ANNOTATION_SUSPEND_REASON: "it fills the disk", "mine": "stays"})
    replica.observe()
    record = record_of(replica)
    if held_again:
        conflict = Reply(Outcome.CONFLICT, message="the object has been modified", code=409)
        replica.kube.faults.add(Fault(call="PATCH trainingjobs/train", answer=conflict))
    resumed = status_transitions.explained(record.status, reason="Resumed", message="it waits", now=time.time())
    await replica.operator.loop.executor.apply(record, ReconcileResult(status=resumed, clear_suspend_reason=True))
    stored = replica.kube.stored(TRAINING_JOBS, "train", "red")
    assert stored is not None
    kept = {"mine": "stays"} | ({names.ANNOTATION_SUSPEND_REASON: "it fills the disk"} if held_again else {})
    assert stored["metadata"]["annotations"] == kept
