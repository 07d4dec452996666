"""The executor, action by action: what is written, in which order, and what is assumed when the write fails."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from typing import Any
from unittest.mock import patch

import pytest

from cotenant.controller.client.kube import (
    EVENTS,
    SECRETS,
    TRAINING_JOBS,
    FencedError,
    Outcome,
    RefusedError,
    Reply,
    UnreachableError,
)
from cotenant.controller.execution.executor import REFUSED_PAUSE_S, RETRY_S, ExecutionResult, Executor
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.lifecycle import status_transitions
from cotenant.controller.lifecycle.observation import EventToRecord, ForcedDeletion, ReconcileResult
from cotenant.core.model.lifecycle import LifecycleEvent, Phase
from cotenant.core.model.plan import Action, Admit, Evict, EvictionKind, Reason, Verdict
from tests.controller.builders import placement_on
from tests.controller.execution.replica import (
    SECRET,
    Replica,
    end_pods,
    granted,
    phase,
    start_pods,
    status,
    submit,
    writes,
)
from tests.support.api_faults import Fault

pytestmark = pytest.mark.looptime

COMMIT = "PATCH trainingjobs/train/status"
ALL = {"red/train": ["GPU-n1-0", "GPU-n1-1", "GPU-n2-0", "GPU-n2-1"]}
AT_ONCE = ExecutionResult()


async def decided(*faults: Fault) -> tuple[Replica, JobRecord, Admit]:
    """A job, and the admission that was decided on and assumed."""
    replica = Replica()
    submit(replica.kube)
    (action,) = replica.decide().actions
    assert isinstance(action, Admit)
    replica.kube.faults.add(*faults)
    return replica, record_of(replica), action


async def running() -> tuple[Replica, JobRecord]:
    replica, record, action = await decided()
    await replica.operator.loop.executor.admit(record, action)
    await start_pods(replica.kube)
    replica.observe()
    return replica, record_of(replica)


def record_of(replica: Replica) -> JobRecord:
    return replica.operator.cache.jobs["red/train"]


def uncertain(replica: Replica) -> Action | None:
    return replica.operator.memories[record_of(replica).id].uncertain


async def test_an_admission_is_committed_before_anything_is_made_and_known_at_once() -> None:
    replica, record, action = await decided()
    result = await replica.operator.loop.executor.admit(record, action)
    assert (result, writes(replica.kube)[0], len(await granted(replica.kube))) == (AT_ONCE, COMMIT, 2)
    assert (record_of(replica).version > record.version, uncertain(replica), replica.held()) == (True, None, ALL)


async def test_a_backfilled_job_is_told_by_when_it_is_to_have_ended_and_held_to_it() -> None:
    replica, record, action = await decided()
    promised = dataclasses.replace(action, backfilled_until=1_700_000_000.0)
    await replica.operator.loop.executor.admit(record, promised)
    replica.observe()
    until = "2023-11-14T22:13:20Z"
    assert status(replica.kube)["placement"]["backfilledUntil"] == until
    assert status(replica.kube)["message"].endswith(
        f"; its GPUs are kept for another job: if it has not ended by {until}, as it said, it may have to leave"
    )
    job = replica.operator.loop.cluster.read_job(record_of(replica), 0.0).job
    assert (job and job.backfilled_until) == 1_700_000_000.0


async def test_an_admission_without_an_answer_stays_assumed() -> None:
    replica, record, action = await decided(Fault(call=COMMIT, lost="answer"))
    with pytest.raises(UnreachableError):
        await replica.operator.loop.executor.admit(record, action)
    assert (uncertain(replica), replica.held(), writes(replica.kube)) == (action, ALL, [COMMIT])


@pytest.mark.parametrize(("lost", "held"), [("answer", ALL), ("request", {})], ids=["written", "not written"])
async def test_an_uncertain_commit_is_resolved_by_what_the_api_server_has(
    lost: Any, held: dict[str, list[str]]
) -> None:
    replica, record, action = await decided(Fault(call=COMMIT, lost=lost))
    with pytest.raises(UnreachableError):
        await replica.operator.loop.executor.admit(record, action)
    assert await replica.operator.loop.executor.resolve_uncertain(record, action) == AT_ONCE
    assert (uncertain(replica), replica.held()) == (None, held)


async def test_a_conflict_forgets_the_admission_and_learns_the_other_write() -> None:
    replica, record, action = await decided()
    replica.kube.faults.add(Fault(call=COMMIT, first=lambda: submit(replica.kube, workers=1, uid=record.uid)))
    result = await replica.operator.loop.executor.admit(record, action)
    assert (result, uncertain(replica), replica.held()) == (ExecutionResult(time.time() + RETRY_S), None, {})
    job = record_of(replica).job
    assert (job is not None and job.spec.workers, await granted(replica.kube)) == (1, {})


async def test_a_namesake_at_the_commit_is_not_given_the_gpus_of_the_job_that_was_decided_on() -> None:
    replica, record, action = await decided()

    def replace_job() -> None:
        replica.kube.remove(TRAINING_JOBS, "train", "red")
        submit(replica.kube)

    replica.kube.faults.add(Fault(call=COMMIT, first=replace_job))
    await replica.operator.loop.executor.admit(record, action)
    replica.observe()
    assert (record_of(replica).uid == record.uid, phase(replica.kube), await granted(replica.kube)) == (False, None, {})


async def test_an_admission_that_was_fenced_is_forgotten() -> None:
    replica, record, action = await decided()
    replica.lose()
    with pytest.raises(FencedError):
        await replica.operator.loop.executor.admit(record, action)
    assert (uncertain(replica), replica.held(), writes(replica.kube)) == (None, {}, [])


async def test_an_eviction_is_written_down_before_its_pods_are_asked_to_end() -> None:
    replica, record = await running()
    del replica.kube.calls[:]
    action = Evict(job=record.key, kind=EvictionKind.PREEMPTED, message="for red/other", in_favour_of="red/other")
    assert await replica.operator.loop.executor.evict(record, action) == AT_ONCE
    assert writes(replica.kube) == [COMMIT, "DELETE pods/train-1-0", "DELETE pods/train-1-1"]
    assert (phase(replica.kube), status(replica.kube)["message"]) == ("Evicting", "for red/other")
    assert (sorted(await granted(replica.kube)), replica.held()) == (["!train-1-0", "!train-1-1"], ALL)


async def ended(*faults: Fault) -> tuple[Replica, JobRecord]:
    """A job whose pods have ended, and which is still evicting by its status; the token of its attempt is there."""
    replica, record = await running()
    action = Evict(job=record.key, kind=EvictionKind.PREEMPTED, message="for red/other", in_favour_of="red/other")
    await replica.operator.loop.executor.evict(record, action)
    await end_pods(replica.kube)
    replica.observe()
    del replica.kube.calls[:]
    replica.kube.faults.add(*faults)
    return replica, record_of(replica)


def released(record: JobRecord) -> ReconcileResult:
    freed = status_transitions.released(record.status, milli=0, over_at=time.time(), now=time.time())
    return ReconcileResult(status=freed)


async def test_the_token_of_an_attempt_goes_before_the_attempt_is_written_down_as_over() -> None:
    replica, record = await ended()
    assert replica.kube.stored(SECRETS, SECRET, "red")
    await replica.operator.loop.executor.apply(record, released(record))
    assert (writes(replica.kube), phase(replica.kube)) == ([f"DELETE secrets/{SECRET}", COMMIT], "Pending")
    assert replica.kube.stored(SECRETS, SECRET, "red") is None


async def test_a_crash_between_the_two_leaves_no_token() -> None:
    replica, record = await ended(Fault(call=COMMIT, lost="request"))
    with pytest.raises(UnreachableError):
        await replica.operator.loop.executor.apply(record, released(record))
    restarted = Replica(replica.kube)
    await restarted.operator.resync()
    record = record_of(restarted)
    await restarted.operator.loop.executor.apply(record, released(record))
    assert (phase(replica.kube), replica.kube.stored(SECRETS, SECRET, "red")) == ("Pending", None)


async def test_a_token_that_may_not_be_deleted_holds_nothing_up() -> None:
    refused = Reply(Outcome.REFUSED, message="forbidden", code=403)
    replica, record = await ended(Fault(call=f"DELETE secrets/{SECRET}", answer=refused))
    assert await replica.operator.loop.executor.apply(record, released(record)) == AT_ONCE
    assert phase(replica.kube) == "Pending"


async def test_a_job_of_one_rank_has_no_token_to_delete() -> None:
    replica = Replica()
    submit(replica.kube, workers=1)
    (action,) = replica.decide().actions
    assert isinstance(action, Admit)
    await replica.operator.loop.executor.admit(record_of(replica), action)
    replica.observe()
    del replica.kube.calls[:]
    finished = status_transitions.finished(
        record_of(replica).status, LifecycleEvent.COMPLETED, reason="Completed", message="", milli=0,
        over_at=time.time(), now=time.time(),
    )  # fmt: skip
    await replica.operator.loop.executor.apply(record_of(replica), ReconcileResult(status=finished))
    assert writes(replica.kube) == [COMMIT]


async def test_an_eviction_that_was_not_committed_ends_no_pod() -> None:
    replica, record = await running()
    replica.kube.faults.add(Fault(call=COMMIT, first=lambda: submit(replica.kube, uid=record.uid)))
    action = Evict(job=record.key, kind=EvictionKind.PREEMPTED, message="for red/other", in_favour_of="red/other")
    result = await replica.operator.loop.executor.evict(record, action)
    assert result == ExecutionResult(time.time() + RETRY_S)
    assert sorted(await granted(replica.kube)) == ["train-1-0", "train-1-1"]


async def test_a_reason_to_wait_is_written_once() -> None:
    replica, record, _ = await decided()
    verdict = Verdict(job=record.key, reason=Reason.NO_QUOTA, message="no quota")
    await replica.operator.loop.executor.report_pending(record, verdict)
    await replica.operator.loop.executor.report_pending(record_of(replica), verdict)
    assert writes(replica.kube) == [COMMIT]
    assert (phase(replica.kube), status(replica.kube)["pending"]["message"]) == ("Pending", "no quota")


async def test_a_commit_that_fails_takes_nothing_back_from_a_namesake_that_was_given_the_same_gpus_meanwhile() -> None:
    replica, record, action = await decided()
    given: list[tuple[Action, ...]] = []

    def replace_and_decide() -> None:
        replica.kube.remove(TRAINING_JOBS, "train", "red")
        submit(replica.kube)
        given.append(replica.decide().actions)

    replica.kube.faults.add(Fault(call=COMMIT, first=replace_and_decide))
    await replica.operator.loop.executor.admit(record, action)
    assert given == [(action,)]
    assert (record_of(replica).uid == record.uid, replica.held()) == (False, ALL)


async def test_a_commit_that_lands_after_its_job_was_replaced_confirms_nothing_of_the_namesake() -> None:
    replica, record, action = await decided()

    async def commit_then_replace(*args: Any) -> JobRecord:
        replica.kube.remove(TRAINING_JOBS, "train", "red")
        submit(replica.kube)
        assert replica.decide().actions == (action,)
        return dataclasses.replace(record, version=record.version + 1)

    with patch.object(Executor, "_write", side_effect=commit_then_replace):
        await replica.operator.loop.executor.admit(record, action)
    replica.observe()
    submit(replica.kube, uid=record_of(replica).uid, labels={"seen": "again"})
    assert (replica.held(), await granted(replica.kube)) == (ALL, {})


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
        await replica.operator.loop.executor.report_pending(record_of(replica), verdict)
    assert (await events(replica), status(replica.kube)["message"]) == (["no quota"], "no quota at all")


async def test_a_reason_to_wait_that_was_not_written_is_no_event() -> None:
    replica, record, _ = await decided(Fault(call=COMMIT, answer=Reply(Outcome.REFUSED, code=403)))
    verdict = Verdict(job=record.key, reason=Reason.NO_QUOTA, message="no quota")
    with pytest.raises(RefusedError):
        await replica.operator.loop.executor.report_pending(record, verdict)
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
    await replica.operator.loop.executor.admit(record, Admit(job=record.key, placement=placement))
    assert status(replica.kube)["message"] == message


async def test_an_admission_reports_a_grace_period_that_is_cut() -> None:
    replica = Replica()
    document = submit(replica.kube)
    replica.kube.put(TRAINING_JOBS, document | {"spec": document["spec"] | {"gracePeriod": "24h"}})
    replica.observe()
    record = record_of(replica)
    await replica.operator.loop.executor.admit(record, Admit(job=record.key, placement=placement_on(("n1", 1))))
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
    await replica.operator.loop.executor.admit(record, action)
    sample = replica.operator.metrics.registry.get_sample_value
    waited = [sample(f"cotenant_job_wait_seconds_{part}", {"queue": "red"}) for part in ("count", "sum")]
    assert waited == [1.0, pytest.approx(7.0, abs=0.1)]


async def test_a_job_whose_spec_became_unreadable_is_admitted_without_a_measure_of_its_wait() -> None:
    replica, record, action = await decided()
    await replica.operator.loop.executor.admit(dataclasses.replace(record, job=None), action)
    sample = replica.operator.metrics.registry.get_sample_value
    assert (phase(replica.kube), sample("cotenant_job_wait_seconds_count", {"queue": "red"})) == ("Starting", None)


async def test_of_a_committed_placement_that_cannot_be_carried_out_no_pod_is_made() -> None:
    replica, record, _ = await decided()
    action = Admit(job=record.key, placement=placement_on(("n1", 1)))
    assert await replica.operator.loop.executor.admit(record, action) == AT_ONCE
    assert (writes(replica.kube), phase(replica.kube)) == ([COMMIT], "Starting")


async def test_of_a_job_that_is_gone_after_its_commit_no_pod_is_made() -> None:
    replica, record, action = await decided()
    cache = replica.operator.cache
    gone = Fault(call=COMMIT, first=lambda: cache.remove(TRAINING_JOBS, "red", "train", record.uid))
    replica.kube.faults.add(gone)
    assert await replica.operator.loop.executor.admit(record, action) == AT_ONCE
    assert writes(replica.kube) == [COMMIT]


async def test_only_a_step_that_has_an_event_records_one() -> None:
    replica, *_ = await decided()
    executor = replica.operator.loop.executor
    for reason, event in (("First", None), ("Second", EventToRecord(reason="Second", message="something new"))):
        written = record_of(replica)
        status = status_transitions.explained(written.status, reason=reason, message=reason, now=time.time())
        await executor.apply(written, ReconcileResult(status=status, event=event))
    assert await events(replica) == ["something new"]


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


async def test_what_an_uncertain_commit_has_written_is_known_before_the_watch_says_so() -> None:
    replica, record, action = await decided(Fault(call=COMMIT, lost="answer"))
    with pytest.raises(UnreachableError):
        await replica.operator.loop.executor.admit(record, action)
    await replica.operator.loop.executor.resolve_uncertain(record, action)
    assert (record_of(replica).version > record.version, record_of(replica).phase) == (True, Phase.STARTING)


async def test_a_write_counts_as_a_transition_where_the_phase_changes() -> None:
    replica, record, action = await decided()
    executor, registry = replica.operator.loop.executor, replica.operator.metrics.registry

    def counted() -> list[tuple[dict[str, str], float]]:
        samples = [one for family in registry.collect() for one in family.samples]
        return [(one.labels, one.value) for one in samples if one.name.endswith("transitions_total")]

    await executor.admit(record, action)
    assert counted() == [({"phase": "Starting"}, 1.0)]
    written = record_of(replica)
    same = status_transitions.explained(written.status, reason="Slow", message="an image is pulled", now=time.time())
    await executor.apply(written, ReconcileResult(status=same))
    assert counted() == [({"phase": "Starting"}, 1.0)]
