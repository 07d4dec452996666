"""The token of an attempt is deleted before the attempt is written down as over."""

from __future__ import annotations

import time

import pytest

from cotenant.controller.client.kube import (
    SECRETS,
    Outcome,
    Reply,
    UnreachableError,
)
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.lifecycle import status_transitions
from cotenant.controller.lifecycle.observation import ReconcileResult
from cotenant.core.model.lifecycle import LifecycleEvent
from cotenant.core.model.plan import Admit, Evict, EvictionKind
from tests.controller.execution.replica import (
    SECRET,
    Replica,
    end_pods,
    phase,
    submit,
    writes,
)
from tests.controller.execution.writes.executor.decided_jobs import AT_ONCE, COMMIT, record_of, running
from tests.support.api_faults import Fault

pytestmark = pytest.mark.looptime


async def ended(*faults: Fault) -> tuple[Replica, JobRecord]:
    """A job whose pods have ended, and which is still evicting by its status; the token of its attempt is there."""
    replica, record = await running()
    action = Evict(job=record.key, kind=EvictionKind.PREEMPTED, message="for red/other", in_favour_of="red/other")
    await replica.operator.loop.action_executor.evict(record, action)
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
    await restarted.operator.feed.resync()
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
    await replica.operator.loop.action_executor.admit(record_of(replica), action)
    replica.observe()
    del replica.kube.calls[:]
    finished = status_transitions.finished(
        record_of(replica).status, LifecycleEvent.COMPLETED, reason="Completed", message="", milli=0,
        over_at=time.time(), now=time.time(),
    )  # fmt: skip
    await replica.operator.loop.executor.apply(record_of(replica), ReconcileResult(status=finished))
    assert writes(replica.kube) == [COMMIT]
