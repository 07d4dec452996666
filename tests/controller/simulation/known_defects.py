"""Ways to break the operator, each as a patch of production code that lasts as long as its context."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from cotenant.controller.client.fence import Fence
from cotenant.controller.client.kube import UnreachableError
from cotenant.controller.cluster.cluster_view import ClusterView
from cotenant.controller.execution.executor import Executor
from cotenant.controller.execution.scheduling_loop import SchedulingLoop
from cotenant.controller.informers.departed_pods import DepartedPods
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.informers.pod_record import PodRecord
from cotenant.controller.lifecycle.observation import Observation
from cotenant.core.model.plan import Action

Defect = Callable[[], AbstractContextManager[Any]]


def without_the_fence() -> AbstractContextManager[Any]:
    return patch.object(Fence, "check", lambda fence, write: None)


def with_uncertain_commits_forgotten() -> AbstractContextManager[Any]:
    commit = Executor._commit

    async def forgetful(executor: Executor, record: JobRecord, action: Action, status: Any) -> JobRecord | None:
        try:
            return await commit(executor, record, action, status)
        except UnreachableError:
            executor.memories[record.id].uncertain = None
            executor.cluster.resolve_assumption(record.id, action, None)
            raise

    return patch.object(Executor, "_commit", forgetful)


@contextmanager
def with_gpus_freed_by_the_deletion_of_a_pod() -> Iterator[None]:
    """Not by its end, nor by the word of its node."""
    held = property(lambda pod: pod.exit is None and not pod.deleting)
    with patch.object(PodRecord, "held", held), patch.object(DepartedPods, "of_job", lambda departed, job, present: []):
        yield


def without_a_list_before_the_first_decision() -> AbstractContextManager[Any]:
    async def restore(loop: SchedulingLoop) -> bool:
        loop.cluster.restore(loop.clock())
        loop._restored = True
        return True

    return patch.object(SchedulingLoop, "_restore", restore)


def with_half_a_gang_taken_for_a_whole_one() -> AbstractContextManager[Any]:
    half = property(lambda o: any(pod.ready for pod in o.gang.values()))
    return patch.object(Observation, "all_up", half)


def with_orphaned_pods_not_counted() -> AbstractContextManager[Any]:
    return patch.object(ClusterView, "_sync_orphaned", lambda view, job: False)


def with_assumptions_not_made() -> AbstractContextManager[Any]:
    return patch.object(ClusterView, "assume", lambda view, plan, now: None)
