"""The commit of an admission, an eviction or a resize: answered, lost, in conflict, for a namesake."""

from __future__ import annotations

import dataclasses
import time
from typing import Any
from unittest.mock import patch

import pytest

from cotenant.controller.client.kube import (
    NAMESPACES,
    TRAINING_JOBS,
    FailedWebhookError,
    FencedError,
    UnreachableError,
)
from cotenant.controller.execution.writes.executor import RETRY_S, ExecutionResult, Executor
from cotenant.controller.informers.job_record import JobRecord
from cotenant.core.model.lifecycle import Phase
from cotenant.core.model.plan import Action, Evict, EvictionKind
from tests.controller.execution.replica import (
    Replica,
    granted,
    phase,
    status,
    submit,
    writes,
)
from tests.controller.execution.writes.executor.decided_jobs import AT_ONCE, COMMIT, decided, record_of, running
from tests.support.api_faults import Fault

pytestmark = pytest.mark.looptime
ALL = {"red/train": ["GPU-n1-0", "GPU-n1-1", "GPU-n2-0", "GPU-n2-1"]}


def webhook_away() -> None:
    raise FailedWebhookError('failed calling webhook "jobs.example.com": no endpoints available')


def uncertain(replica: Replica) -> Action | None:
    return replica.operator.memories[record_of(replica).id].uncertain


async def test_an_admission_is_committed_before_anything_is_made_and_known_at_once() -> None:
    replica, record, action = await decided()
    result = await replica.operator.loop.action_executor.admit(record, action)
    assert (result, writes(replica.kube)[0], len(await granted(replica.kube))) == (AT_ONCE, COMMIT, 2)
    assert (record_of(replica).version > record.version, uncertain(replica), replica.held()) == (True, None, ALL)


async def test_an_admission_without_an_answer_stays_assumed() -> None:
    replica, record, action = await decided(Fault(call=COMMIT, lost="answer"))
    with pytest.raises(UnreachableError):
        await replica.operator.loop.action_executor.admit(record, action)
    assert (uncertain(replica), replica.held(), writes(replica.kube)) == (action, ALL, [COMMIT])


@pytest.mark.parametrize(("lost", "held"), [("answer", ALL), ("request", {})], ids=["written", "not written"])
async def test_an_uncertain_commit_is_resolved_by_what_the_api_server_has(
    lost: Any, held: dict[str, list[str]]
) -> None:
    replica, record, action = await decided(Fault(call=COMMIT, lost=lost))
    with pytest.raises(UnreachableError):
        await replica.operator.loop.action_executor.admit(record, action)
    assert await replica.operator.loop.executor.resolve_uncertain(record, action) == AT_ONCE
    assert (uncertain(replica), replica.held()) == (None, held)


async def test_a_conflict_forgets_the_admission_and_learns_the_other_write() -> None:
    replica, record, action = await decided()
    replica.kube.faults.add(Fault(call=COMMIT, first=lambda: submit(replica.kube, workers=1, uid=record.uid)))
    result = await replica.operator.loop.action_executor.admit(record, action)
    assert (result, uncertain(replica), replica.held()) == (ExecutionResult(time.time() + RETRY_S), None, {})
    job = record_of(replica).job
    assert (job is not None and job.spec.workers, await granted(replica.kube)) == (1, {})


async def test_a_namesake_at_the_commit_is_not_given_the_gpus_of_the_job_that_was_decided_on() -> None:
    replica, record, action = await decided()

    def replace_job() -> None:
        replica.kube.remove(TRAINING_JOBS, "train", "red")
        submit(replica.kube)

    replica.kube.faults.add(Fault(call=COMMIT, first=replace_job))
    await replica.operator.loop.action_executor.admit(record, action)
    replica.observe()
    assert (record_of(replica).uid == record.uid, phase(replica.kube), await granted(replica.kube)) == (False, None, {})


async def test_an_admission_that_was_fenced_is_forgotten() -> None:
    replica, record, action = await decided()
    replica.lose()
    with pytest.raises(FencedError):
        await replica.operator.loop.action_executor.admit(record, action)
    assert (uncertain(replica), replica.held(), writes(replica.kube)) == (None, {}, [])


async def test_an_admission_that_a_silent_webhook_keeps_from_being_written_is_forgotten() -> None:
    replica, record, action = await decided(Fault(call=COMMIT, first=webhook_away))
    with pytest.raises(FailedWebhookError):
        await replica.operator.loop.action_executor.admit(record, action)
    assert (uncertain(replica), replica.held(), await granted(replica.kube)) == (None, {}, {})


async def test_an_eviction_is_written_down_before_its_pods_are_asked_to_end() -> None:
    replica, record = await running()
    del replica.kube.calls[:]
    action = Evict(job=record.key, kind=EvictionKind.PREEMPTED, message="for red/other", in_favour_of="red/other")
    assert await replica.operator.loop.action_executor.evict(record, action) == AT_ONCE
    assert writes(replica.kube) == [COMMIT, "DELETE pods/train-1-0", "DELETE pods/train-1-1"]
    assert (phase(replica.kube), status(replica.kube)["message"]) == ("Evicting", "for red/other")
    assert (sorted(await granted(replica.kube)), replica.held()) == (["!train-1-0", "!train-1-1"], ALL)


async def test_an_eviction_that_was_not_committed_ends_no_pod() -> None:
    replica, record = await running()
    replica.kube.faults.add(Fault(call=COMMIT, first=lambda: submit(replica.kube, uid=record.uid)))
    action = Evict(job=record.key, kind=EvictionKind.PREEMPTED, message="for red/other", in_favour_of="red/other")
    result = await replica.operator.loop.action_executor.evict(record, action)
    assert result == ExecutionResult(time.time() + RETRY_S)
    assert sorted(await granted(replica.kube)) == ["train-1-0", "train-1-1"]


async def test_a_commit_that_fails_takes_nothing_back_from_a_namesake_that_was_given_the_same_gpus_meanwhile() -> None:
    replica, record, action = await decided()
    given: list[tuple[Action, ...]] = []

    def replace_and_decide() -> None:
        replica.kube.remove(TRAINING_JOBS, "train", "red")
        submit(replica.kube)
        given.append(replica.decide().actions)

    replica.kube.faults.add(Fault(call=COMMIT, first=replace_and_decide))
    await replica.operator.loop.action_executor.admit(record, action)
    assert given == [(action,)]
    assert (record_of(replica).uid == record.uid, replica.held()) == (False, ALL)


async def test_a_commit_that_lands_after_its_job_was_replaced_confirms_nothing_of_the_namesake() -> None:
    replica, record, action = await decided()

    async def commit_then_replace(*args: Any) -> JobRecord:
        replica.kube.remove(TRAINING_JOBS, "train", "red")
        submit(replica.kube)
        assert replica.decide().actions == (action,)
        return dataclasses.replace(record, version=record.version + 1)

    with patch.object(Executor, "write", side_effect=commit_then_replace):
        await replica.operator.loop.action_executor.admit(record, action)
    replica.observe()
    submit(replica.kube, uid=record_of(replica).uid, labels={"seen": "again"})
    assert (replica.held(), await granted(replica.kube)) == (ALL, {})


async def test_what_an_uncertain_commit_has_written_is_known_before_the_watch_says_so() -> None:
    replica, record, action = await decided(Fault(call=COMMIT, lost="answer"))
    with pytest.raises(UnreachableError):
        await replica.operator.loop.action_executor.admit(record, action)
    await replica.operator.loop.executor.resolve_uncertain(record, action)
    assert (record_of(replica).version > record.version, record_of(replica).phase) == (True, Phase.STARTING)


async def test_an_eviction_names_the_job_that_it_is_for_only_in_the_namespace_of_both() -> None:
    for other, said in (("red/urgent", "red/urgent"), ("blue/urgent", "a job of another tenant")):
        replica, record = await running()
        replica.kube.put(NAMESPACES, {"metadata": {"name": "blue", "uid": "n"}})
        replica.observe()
        evict = Evict(
            job="red/train", kind=EvictionKind.RECLAIMED, in_favour_of=other, message=f"Makes room for {other}."
        )
        await replica.operator.loop.action_executor.evict(record, evict)
        told = status(replica.kube)
        assert (told["eviction"]["inFavourOf"], told["message"]) == (said, f"Makes room for {said}.")
