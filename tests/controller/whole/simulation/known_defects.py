"""Ways to break the operator, each as a patch of production code that lasts as long as its context."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from cotenant.controller.client.fence import Fence
from cotenant.controller.client.kube import UnreachableError
from cotenant.controller.cluster.cluster_view import ClusterView
from cotenant.controller.composites.sweeps import sweep_kind as sweep_plan
from cotenant.controller.composites.sweeps import trials
from cotenant.controller.execution.loop.scheduling_loop import SchedulingLoop
from cotenant.controller.execution.writes.action_executor import ActionExecutor
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.informers.pods.departed_pods import DepartedPods
from cotenant.controller.informers.pods.pod_record import PodRecord
from cotenant.controller.lifecycle.observation import Observation
from cotenant.core.model.plan import Action

Defect = Callable[[], AbstractContextManager[Any]]


def without_the_fence() -> AbstractContextManager[Any]:
    return patch.object(Fence, "check", lambda fence, write: None)


def with_uncertain_commits_forgotten() -> AbstractContextManager[Any]:
    commit = ActionExecutor._commit

    async def forgetful(executor: ActionExecutor, record: JobRecord, action: Action, status: Any) -> JobRecord | None:
        try:
            return await commit(executor, record, action, status)
        except UnreachableError:
            executor.executor.memories[record.id].uncertain = None
            executor.executor.cluster.resolve_assumption(record.id, action, None)
            raise

    return patch.object(ActionExecutor, "_commit", forgetful)


@contextmanager
def with_gpus_freed_by_the_deletion_of_a_pod() -> Iterator[None]:
    """GPUs are freed neither by the end of a pod nor by its node's report."""
    held = property(lambda pod: pod.exit is None and not pod.deleting)
    with patch.object(PodRecord, "held", held), patch.object(DepartedPods, "of_job", lambda departed, job, present: []):
        yield


def without_a_list_before_the_first_decision() -> AbstractContextManager[Any]:
    async def restore(loop: SchedulingLoop) -> bool:
        loop.cluster.restore(loop.clock())
        loop._restored = True
        return True

    return patch.object(SchedulingLoop, "_restore", restore)


def with_composites_decided_on_before_the_list() -> AbstractContextManager[Any]:
    return patch.object(SchedulingLoop, "has_taken_over", property(lambda loop: loop.leadership.held))


def with_half_a_gang_taken_for_a_whole_one() -> AbstractContextManager[Any]:
    half = property(lambda o: any(pod.ready for pod in o.gang.values()))
    return patch.object(Observation, "all_up", half)


def with_orphaned_pods_not_counted() -> AbstractContextManager[Any]:
    return patch.object(ClusterView, "_sync_orphaned", lambda view, job: False)


def with_assumptions_not_made() -> AbstractContextManager[Any]:
    return patch.object(ClusterView, "assume", lambda view, plan, now: None)


def with_all_trials_begun_at_once() -> AbstractContextManager[Any]:
    with_new = trials.with_new

    def without_bound(sweep: Any, known: Any) -> Any:
        spec = sweep.spec.model_copy(update={"parallelism": sweep.spec.max_trials})
        return with_new(sweep.model_copy(update={"spec": spec}), known)

    return patch.object(trials, "with_new", without_bound)


def with_trials_that_were_seen_forgotten() -> AbstractContextManager[Any]:
    observed = trials.observed

    def forgetful(sweep: Any, jobs: Any, number: int, trial: Any, taken: Any) -> Any:
        there = tuple(sorted(trials.jobs_of(sweep, jobs, number)))
        return observed(sweep, jobs, number, trial.model_copy(update={"seen": there}), taken)

    creations = sweep_plan._creations

    def again(sweep: Any, seen: Any, jobs: Any, written: Any) -> Any:
        known = {number: forgetful(sweep, jobs, number, one, seen.taken) for number, one in written.items()}
        return creations(sweep, seen, jobs, known)

    stack = ExitStack()
    stack.enter_context(patch.object(trials, "observed", forgetful))
    stack.enter_context(patch.object(sweep_plan, "_creations", again))
    return stack
