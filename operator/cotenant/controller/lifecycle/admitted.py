"""A job that holds its GPUs, starting or running. Pure.

What may end an attempt are policies, each a file (or, where it is a line or two, a function here) with `ending`: what
the job comes to now, or None, and `deadline`: when it may next come to that by the clock alone. JobSet keeps its
policies in the same way.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from cotenant import names
from cotenant.api.resources.trainingjob_status import ExitStatus
from cotenant.api.scalars.quantities import show_duration
from cotenant.controller.lifecycle import (
    idle_timeout,
    isolation_levels,
    max_runtime,
    node_lost,
    pod_exits,
    retries,
    start_obstacles,
    start_timeout,
    status_transitions,
)
from cotenant.controller.lifecycle.failure_classification import AttemptEnd, AttemptOutcome, Undecided
from cotenant.controller.lifecycle.observation import EventToRecord, Observation, ReconcileResult
from cotenant.controller.lifecycle.pod_deletion import effective_grace_s, is_unconfirmed
from cotenant.controller.lifecycle.termination import Ending, Eviction, terminate
from cotenant.controller.settings import Settings
from cotenant.core.model.formatting import counted
from cotenant.core.model.lifecycle import LifecycleEvent, Phase


def reconcile_admitted(o: Observation, settings: Settings) -> ReconcileResult:
    # 1. What ends the attempt: the first that applies, from certain to merely late.
    for ending_of in ENDINGS:
        if (ending := ending_of(o, settings)) is not None:
            return terminate(o, ending)
    # 2. Otherwise it starts, or runs on.
    result = isolation_levels.with_levels(o, _running(o) if o.phase is Phase.RUNNING else _starting(o))
    # 3. What ends it by the clock is looked for again at its time.
    times = [result.requeue_at, *(deadline_of(o, settings) for deadline_of in DEADLINES)]
    return replace(result, requeue_at=min((at for at in times if at is not None), default=None))


def _starting(o: Observation) -> ReconcileResult:
    """Running once every pod is ready; until then, missing pods are made and what holds them up is reported."""
    if o.all_up:
        message = f"{counted(o.workers, 'worker')} running in {counted(o.nodes, 'pod')}"
        if o.servers:
            message += f", {counted(o.servers, 'parameter server')} beside them"
        fields = {} if o.status.started_at else {"started_at": status_transitions.moment(o.now)}
        changed = status_transitions.moved(
            o.status, LifecycleEvent.WORKERS_READY, reason="Running", message=message, now=o.now, **fields
        )
        logs = f"kubectl logs -n {o.record.namespace} -l {names.LABEL_JOB}={o.record.name} --prefix -f"
        return ReconcileResult(
            status=changed, event=EventToRecord(reason="Running", message=f"{message}; its logs: {logs}")
        )
    gang = o.gang
    # After a resize the pods of the attempt before must be gone; those that their node does not end are not waited for.
    earlier = [pod for pod in o.pods if pod.held and pod not in gang.values()]
    crowded = any(pod.node not in o.unreachable_nodes and not is_unconfirmed(o, pod) for pod in earlier)
    create = len(gang) < o.size and not crowded and not isinstance(o.end, Undecided)
    result = ReconcileResult(create_pods=create, delete_pods=o.strays)
    obstacle = start_obstacles.first(o)
    if obstacle is None or obstacle.reason == o.status.reason:
        return result
    changed = status_transitions.explained(o.status, reason=obstacle.reason, message=obstacle.message, now=o.now)
    event = EventToRecord(reason=obstacle.reason, message=obstacle.message, warning=True)
    return replace(result, status=changed, event=event)


def _running(o: Observation) -> ReconcileResult:
    """Write how far it is, and end what earlier attempts have left."""
    status = None if o.progress is None else status_transitions.with_progress(o.status, o.progress)
    return ReconcileResult(status=status, delete_pods=o.strays)


def _placement_revoked(o: Observation, settings: Settings) -> Ending | None:
    """The placement was edited: nothing is committed, or what cannot be carried out, so nothing may run."""
    if o.status.placement is None:
        message = "status.placement was removed by hand"
        return Eviction(event=LifecycleEvent.EVICTED, kind="PlacementLost", message=message, warning=True)
    if o.of_placement.error is None:
        return None
    message = f"status.placement cannot be carried out: {o.of_placement.error}; the job is placed anew"
    return Eviction(event=LifecycleEvent.EVICTED, kind="PlacementImpossible", message=message, warning=True)


def _suspended(o: Observation, settings: Settings) -> Ending | None:
    if o.spec is None or not o.spec.suspend:
        return None
    grace_s = effective_grace_s(o.spec.grace_period, settings)
    message = f"spec.suspend was set: the ranks get SIGTERM and {show_duration(grace_s)} to save and to end"
    return Eviction(event=LifecycleEvent.SUSPENDED, kind="Suspended", message=message)


def _creation_rejected(o: Observation, settings: Settings) -> Ending | None:
    """The API server refused one of its objects, and would refuse it again."""
    if o.of_placement.creation_rejection is None:
        return None
    refused = ExitStatus(code=-1, reason="Refused", message=o.of_placement.creation_rejection)
    return retries.decide(o, AttemptEnd(outcome=AttemptOutcome.NON_RETRIABLE, exit=refused), settings)


def _gpu_limit_broken(o: Observation, settings: Settings) -> Ending | None:
    """A pod over its GPU memory."""
    for pod in o.gang.values():
        violation = o.of_pods.violations.get(pod.uid)
        if violation is not None and pod.held:
            message = (
                f"pod {pod.name} used {violation.memory_mib} MiB of {violation.uuid}, its share is"
                f" {violation.quota_mib} MiB; ask for more in spec.gpu, or use less"
            )
            over = ExitStatus(
                code=names.EXIT_QUOTA, reason="GPUMemoryQuotaExceeded", message=message, node=pod.node, at=o.now
            )
            return retries.decide(o, AttemptEnd(outcome=AttemptOutcome.FAILED, exit=over, pod=pod), settings)
    return None


ENDINGS: Final = (
    _placement_revoked,
    _suspended,
    _creation_rejected,
    _gpu_limit_broken,
    isolation_levels.ending,
    node_lost.sick_gpu_ending,
    node_lost.ending,
    pod_exits.ending,
    start_timeout.ending,
    max_runtime.ending,
    idle_timeout.ending,
)
"""In this order: the first that applies decides."""
DEADLINES: Final = (
    node_lost.deadline,
    pod_exits.deadline,
    start_obstacles.deadline,
    start_timeout.deadline,
    max_runtime.deadline,
    idle_timeout.deadline,
)
