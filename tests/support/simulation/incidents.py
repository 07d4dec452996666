"""What goes wrong, and what people do, in a simulated world: one function for each kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from cotenant import names
from cotenant.controller.client.kube import NODES, PODS, QUEUES, TRAINING_JOBS
from tests.support.simulation.api_client import CallFault, PendingFault
from tests.support.simulation.invariants import EDITOR
from tests.support.simulation.scenario import Incident

if TYPE_CHECKING:
    from tests.support.simulation.replica import Replica
    from tests.support.simulation.world import World


def strike(world: World, incident: Incident) -> None:
    if incident.kind in set(CallFault):
        line = _replica(world, incident).line
        line.faults.append(PendingFault(CallFault(incident.kind), incident.call, incident.seconds))
        return
    detail = " ".join(filter(None, (incident.target, incident.call, f"{incident.seconds:.0f} s")))
    world.story.tell(f"{incident.kind}: {detail}")
    INCIDENTS[incident.kind](world, incident)


def _replica(world: World, incident: Incident) -> Replica:
    """The one that is named, or that leads."""
    if incident.target in world.replicas:
        return world.replicas[incident.target]
    leaders = [one for one in world.replicas.values() if one.operator is not None and one.operator.leadership.held]
    return leaders[0] if leaders else world.replicas["a"]


def _kill(world: World, incident: Incident) -> None:
    _replica(world, incident).process.kill()


def _terminate(world: World, incident: Incident) -> None:
    _replica(world, incident).stop()


def _pause(world: World, incident: Incident) -> None:
    _replica(world, incident).process.paused_until = world.loop.time() + incident.seconds


def _cut_off_replica(world: World, incident: Incident) -> None:
    _replica(world, incident).line.down_until = world.loop.time() + incident.seconds


def _jump_clock(world: World, incident: Incident) -> None:
    _replica(world, incident).set_clock(incident.number)


def _break_watch(world: World, incident: Incident) -> None:
    """It is quiet for a while; then it goes on, or is too old to."""
    feed = _replica(world, incident).feed
    feed.quiet_until[incident.call] = world.loop.time() + incident.seconds
    if incident.number % 2:
        feed.gone.add(incident.call)


def _cut_off_machine(world: World, incident: Incident) -> None:
    machine = world.machines.get(incident.target)
    if machine is not None and machine.cut_off_at is None:
        machine.cut_off(world.loop.time())
        world.loop.call_later(incident.seconds, setattr, machine, "cut_off_at", None)


def _restart_machine(world: World, incident: Incident) -> None:
    if incident.target in world.machines:
        world.machines[incident.target].lose_power()


def _stop_agent(world: World, incident: Incident) -> None:
    if machine := world.machines.get(incident.target):
        machine.agent_away = True
        world.loop.call_later(incident.seconds, machine.restart_agent)


def _delete_job(world: World, incident: Incident) -> None:
    _change(world, incident, lambda kube, name, space: kube.delete(TRAINING_JOBS, name, space))


def _delete_pods(world: World, incident: Incident) -> None:
    """Delete the pods of one job, with grace or by force."""
    grace_s = 0 if incident.number % 2 else None
    for key in [key for key in world.server.objects[PODS] if key.startswith(f"{incident.target}-")]:
        space, name = key.split("/")
        world.server.perform("somebody", lambda kube, n=name, s=space: kube.delete(PODS, n, s, grace_s=grace_s))  # type: ignore[misc]


def _suspend(world: World, incident: Incident) -> None:
    body = {"spec": {"suspend": True}}
    _change(world, incident, lambda kube, name, space: kube.patch(TRAINING_JOBS, name, body, namespace=space))
    world.loop.call_later(incident.seconds, _resume, world, incident)


def _resume(world: World, incident: Incident) -> None:
    body = {"spec": {"suspend": False}}
    _change(world, incident, lambda kube, name, space: kube.patch(TRAINING_JOBS, name, body, namespace=space))


def _delete_composite(world: World, incident: Incident) -> None:
    if plan := world.composites.get(incident.target):
        _change(world, incident, lambda kube, name, space: kube.delete(plan.resource, name, space))


def _suspend_composite(world: World, incident: Incident) -> None:
    _hold_composite(world, incident, True)
    world.loop.call_later(incident.seconds, _hold_composite, world, incident, False)


def _hold_composite(world: World, incident: Incident, suspended: bool) -> None:
    if plan := world.composites.get(incident.target):
        body = {"spec": {"suspend": suspended}}
        _change(world, incident, lambda kube, name, space: kube.patch(plan.resource, name, body, namespace=space))


def _edit_labels(world: World, incident: Incident) -> None:
    """Take labels, annotations and owners from pods, as anybody may who may patch them."""
    metadata = {"metadata": {"labels": {names.LABEL_JOB: "another"}, "annotations": None, "ownerReferences": None}}
    for key in [key for key in world.server.objects[PODS] if key.startswith(f"{incident.target}-")]:
        space, name = key.split("/")
        world.server.perform("somebody", lambda kube, n=name, s=space: kube.patch(PODS, n, metadata, namespace=s))  # type: ignore[misc]


def _edit_status(world: World, incident: Incident) -> None:
    """The placement goes, another job's comes in its place, or the phase is another."""
    placements = [(one.get("status") or {}).get("placement") for one in world.server.objects[TRAINING_JOBS].values()]
    taken = next((one for one in placements if one), None)
    edits: tuple[dict[str, Any], ...] = (
        {"placement": None},
        {"phase": "Starting", "placement": taken},
        {"phase": "Pending"},
        {"phase": "Running"},
        {"attempts": 7},
    )
    body = {"status": edits[incident.number % len(edits)]}

    def edit(kube: Any, name: str, space: str) -> Any:
        return kube.patch(TRAINING_JOBS, name, body, namespace=space, subresource="status")

    _change(world, incident, edit, EDITOR)


def _edit_quota(world: World, incident: Incident) -> None:
    quotas = [{"guaranteed": 0, "limit": incident.number}]
    if incident.target in world.server.objects[QUEUES]:
        world.server.perform(
            "administrator", lambda kube: kube.patch(QUEUES, incident.target, {"spec": {"quotas": quotas}})
        )


def _cordon(world: World, incident: Incident) -> None:
    if incident.target in world.server.objects[NODES]:
        _set_cordon(world, incident.target, True)
        world.loop.call_later(incident.seconds, _set_cordon, world, incident.target, None)


def _set_cordon(world: World, node: str, cordoned: bool | None) -> None:
    body = {"spec": {"unschedulable": cordoned}}
    world.server.perform("administrator", lambda kube: kube.patch(NODES, node, body))


def _change(world: World, incident: Incident, change: Callable[[Any, str, str], Any], by: str = "somebody") -> None:
    space, _, name = incident.target.partition("/")
    world.server.perform(by, lambda kube: change(kube, name, space))


INCIDENTS: Final[dict[str, Callable[[World, Incident], None]]] = {
    "Kill": _kill,
    "Terminate": _terminate,
    "Pause": _pause,
    "Unreachable": _cut_off_replica,
    "ClockJump": _jump_clock,
    "WatchBroken": _break_watch,
    "NodeCutOff": _cut_off_machine,
    "NodeRestarted": _restart_machine,
    "AgentAway": _stop_agent,
    "JobDeleted": _delete_job,
    "PodsDeleted": _delete_pods,
    "Suspended": _suspend,
    "CompositeDeleted": _delete_composite,
    "CompositeSuspended": _suspend_composite,
    "LabelsEdited": _edit_labels,
    "StatusEdited": _edit_status,
    "QuotaEdited": _edit_quota,
    "Cordoned": _cordon,
}
