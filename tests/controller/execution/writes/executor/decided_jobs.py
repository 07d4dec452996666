"""Jobs that a decision was made for, and those that run, each on a replica of its own."""

from __future__ import annotations

from cotenant.controller.execution.writes.executor import ExecutionResult
from cotenant.controller.informers.job_record import JobRecord
from cotenant.core.model.plan import Admit
from tests.controller.execution.replica import (
    Replica,
    start_pods,
    submit,
)
from tests.support.api_faults import Fault

COMMIT = "PATCH trainingjobs/train/status"
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
    await replica.operator.loop.action_executor.admit(record, action)
    await start_pods(replica.kube)
    replica.observe()
    return replica, record_of(replica)


def record_of(replica: Replica) -> JobRecord:
    return replica.operator.cache.jobs["red/train"]
