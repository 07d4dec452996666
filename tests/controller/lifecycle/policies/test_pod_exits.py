"""What the exits of pods, or their absence, make of an attempt."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant import names
from cotenant.api.conversion.to_core import unix_seconds
from cotenant.controller.informers.pods.disruption import Disruption
from cotenant.controller.informers.pods.pod_record import Exit
from cotenant.controller.lifecycle.failure_classification import SETTLE_S
from cotenant.controller.lifecycle.observation import Observation
from cotenant.controller.lifecycle.policies import pod_exits
from cotenant.controller.lifecycle.policies.blocked_start import UNSURE_S
from cotenant.controller.lifecycle.reconcile import reconcile
from cotenant.controller.lifecycle.termination import Eviction, Finish
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import LifecycleEvent, Phase
from tests.controller.builders import T0, admitted, exited, observed, pod, server

SETTINGS = Settings()
TWO = (("n1", 1), ("n2", 1))
UP = (pod(0, ready=True), pod(1, node="n2", ready=True))
DRAINED = Disruption("Drained", "was evicted")


@pytest.mark.parametrize(
    "o",
    [
        observed(admitted(Phase.RUNNING, *TWO), *UP),
        observed(admitted(Phase.STARTING, *TWO), UP[0]),
        observed(admitted(Phase.RUNNING, *TWO, placement=None)),
    ],
    ids=["all run", "pods of a gang that starts are made", "nothing is placed"],
)
def test_an_attempt_goes_on(o: Observation) -> None:
    assert (pod_exits.ending(o, SETTINGS), pod_exits.deadline(o, SETTINGS)) == (None, None)


def test_a_pod_that_is_missing_from_a_running_gang_ends_it_with_its_node() -> None:
    ending = pod_exits.ending(observed(admitted(Phase.RUNNING, *TWO), UP[0]), SETTINGS)
    assert ending is not None
    assert (ending.event, ending.fields["last_exit"].node) == (LifecycleEvent.EVICTED, "n2")
    assert ending.message.startswith("pod train-1-1 on node n2 was deleted by somebody")


def test_a_deleted_pod_that_had_succeeded_is_not_missing() -> None:
    """As an autoscaler removes a node whose last pod has ended: rank 0 goes on alone, and the job ends with it."""
    status = admitted(Phase.RUNNING, *TWO)
    gone = (pod(1, node="n2", end=exited(0, at=T0), deleting=True),)
    o = observed(status, UP[0], gone=gone)
    assert (pod_exits.ending(o, SETTINGS), pod_exits.deadline(o, SETTINGS)) == (None, None)
    ending = pod_exits.ending(observed(status, pod(0, end=exited(0, at=T0 + 50)), gone=gone), SETTINGS)
    assert isinstance(ending, Finish)
    assert ending.event is LifecycleEvent.COMPLETED


def test_a_deleted_pod_that_had_failed_is_missing() -> None:
    gone = (pod(1, node="n2", end=exited(143, at=T0), deleting=True),)
    ending = pod_exits.ending(observed(admitted(Phase.RUNNING, *TWO), UP[0], gone=gone), SETTINGS)
    assert isinstance(ending, Eviction)
    assert ending.message.startswith("pod train-1-1 on node n2 was deleted by somebody")


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.RUNNING])
def test_a_node_on_which_cuda_fails_before_the_program_begins_is_avoided_and_nobody_is_charged(phase: Phase) -> None:
    said = "cannot see the GPUs of this pod: cuInit: CUDA_ERROR_UNKNOWN"
    end = exited(names.EXIT_GPUS_UNUSABLE, at=T0, message=said, reason="GPUsUnusable")
    lost = pod(0, end=exited(names.EXIT_PEER_LOST, at=T0 + 1))
    failed = replace(pod(1, node="n2", end=end), started_at=T0 - pod_exits.CUDA_CHECK_S)
    ending = pod_exits.ending(observed(admitted(phase, *TWO), lost, failed), SETTINGS)
    assert isinstance(ending, Eviction)
    assert (ending.event, ending.kind) == (LifecycleEvent.EVICTED, "GPUsUnusable")
    assert ending.message.startswith(f"CUDA does not work in pod train-1-1 on node n2: {said}. Nothing ran")
    (avoided,) = ending.fields["excluded_nodes"]
    assert (avoided.node, avoided.reason) == ("n2", f"GPUsUnusable: {said}")
    assert ending.fields["blocked_start"].attempt == 1
    assert (ending.fields["faults"], "failures" in ending.fields) == (1, False)


def test_a_job_that_finds_no_cuda_anywhere_is_charged_from_the_fourth_attempt_on_and_does_not_fail() -> None:
    """Its image may be the cause, or may say so to run for nothing. A pod that had been ready starts no new count."""
    status, charged, said = admitted(Phase.RUNNING, ("n1", 1)), [], ""
    for _ in range(8):
        start = unix_seconds(status.placement.admitted_at) if status.placement else None
        end = exited(names.EXIT_GPUS_UNUSABLE, at=(start or T0) + 50, message="no device", reason="GPUsUnusable")
        failed = replace(pod(0, attempt=status.attempts, end=end), started_at=end.at - 40)
        before = status.usage.gpu_milliseconds if status.usage else 0
        waits = reconcile(observed(status, failed, now=end.at + 10), SETTINGS).status
        assert waits is not None
        assert (waits.phase, waits.reason, waits.failures) == (Phase.PENDING, "GPUsUnusable", 0)
        said = waits.message or ""
        charged.append(waits.usage is not None and waits.usage.gpu_milliseconds > before)
        again = admitted(Phase.RUNNING, ("n1", 1), attempts=status.attempts + 1)
        kept = {"faults", "excluded_nodes", "usage"}  # `blocked_start` is forgotten once a pod is ready
        status = again.model_copy(update={name: getattr(waits, name) for name in kept})
    assert charged == [False] * 3 + [True] * 5
    assert status.faults == 3  # its pod's word alone uses up no retry of the platform's
    assert "The 3 attempts before failed too, so the cause may be the image" in said


@pytest.mark.parametrize("started_at", [0.0, T0 - pod_exits.CUDA_CHECK_S - 1], ids=["when is unknown", "long ago"])
def test_a_program_cannot_run_for_nothing_by_saying_in_the_end_that_cuda_does_not_work(started_at: float) -> None:
    failed = replace(pod(0, end=exited(names.EXIT_GPUS_UNUSABLE, at=T0)), started_at=started_at)
    ending = pod_exits.ending(observed(admitted(Phase.RUNNING, ("n1", 1)), failed), SETTINGS)
    assert ending is not None
    assert "blocked_start" not in ending.fields
    assert ending.fields["faults"] == 1


def test_a_missing_server_ends_the_gang_and_has_no_node() -> None:
    ending = pod_exits.ending(observed(admitted(Phase.RUNNING, *TWO, servers=1), *UP), SETTINGS)
    assert ending is not None
    assert ending.fields["last_exit"].node is None
    assert ending.message.startswith("pod train-1-s0 was deleted by somebody")


def test_the_reason_that_kubernetes_gave_for_a_missing_pod_is_passed_on() -> None:
    o = observed(admitted(Phase.RUNNING, *TWO), UP[0], disruptions={"train-1-1": DRAINED, "train-1-0": DRAINED})
    ending = pod_exits.ending(o, SETTINGS)
    assert ending is not None
    assert ending.fields["last_exit"].reason == "Drained"


def test_the_first_exit_is_judged_when_the_others_have_had_their_time() -> None:
    o = observed(admitted(Phase.RUNNING, *TWO), pod(0, end=exited(3, at=T0)), UP[1], now=T0 + 1)
    assert (pod_exits.ending(o, SETTINGS), pod_exits.deadline(o, SETTINGS)) == (None, T0 + SETTLE_S)


def test_a_node_whose_kubelet_refuses_a_pod_is_avoided_and_nobody_is_charged() -> None:
    """The node is avoided at once: a pod that was never admitted has no end time and no better explanation."""
    said = Exit(code=-1, reason="UnexpectedAdmissionError", runtime_message="requested 600, available 400")
    o = observed(admitted(Phase.STARTING, *TWO), UP[0], pod(1, node="n2", end=said))
    ending = pod_exits.ending(o, SETTINGS)
    assert isinstance(ending, Eviction)
    assert (ending.event, ending.kind) == (LifecycleEvent.EVICTED, "UnexpectedAdmissionError")
    assert ending.message == (
        "the kubelet of node n2 refused pod train-1-1 (UnexpectedAdmissionError): requested 600, available 400."
        " Nothing ran and nothing is charged; the next try is in 5s"
    )
    (avoided,) = ending.fields["excluded_nodes"]
    assert (avoided.node, avoided.reason) == ("n2", "UnexpectedAdmissionError")
    assert avoided.until.timestamp() == o.now + UNSURE_S
    assert not {"failures", "faults"} & ending.fields.keys()


def test_a_pod_whose_gpus_lie_on_two_numa_nodes_costs_nobody_anything() -> None:
    words = "Pod was rejected: Resources cannot be allocated with Topology locality"
    said = Exit(code=-1, reason="TopologyAffinityError", runtime_message=words)
    ending = pod_exits.ending(observed(admitted(Phase.STARTING, *TWO), UP[0], pod(1, node="n2", end=said)), SETTINGS)
    assert isinstance(ending, Eviction)
    assert (ending.kind, [one.node for one in ending.fields["excluded_nodes"]]) == ("TopologyAffinityError", ["n2"])
    assert not {"failures", "faults"} & ending.fields.keys()


RUNC = "failed to create containerd task: OCI runtime create failed: "
NVIDIA = "nvidia-container-cli: initialization error: nvml error: driver/library version mismatch"


@pytest.mark.parametrize(
    ("words", "never_ran"),
    [
        (RUNC + NVIDIA, True),
        (RUNC + "nvidia-container-cli: device error: GPU-n1-0: unknown device", True),
        (RUNC + 'exec: "nvidia-container-runtime-hook": executable file not found in $PATH', True),
        ("failed to inject CDI devices: unresolvable CDI devices nvidia.com/gpu=0", True),
        (RUNC + 'unable to start container process: exec: "python": executable file not found in $PATH', False),
        (RUNC + 'exec: "/train.sh": permission denied', False),
        ("exec /usr/bin/python: exec format error", False),
    ],
)
@pytest.mark.parametrize("retries", [0, 3])
def test_a_container_that_its_node_cannot_start_is_charged_to_nobody(words: str, never_ran: bool, retries: int) -> None:
    dead = pod(0, end=Exit(code=128, reason="StartError", at=T0 + 20, runtime_message=words))
    o = observed(admitted(Phase.STARTING, ("n1", 1)), dead, spec={"workers": 1, "retries": retries}, now=T0 + 30)
    status = reconcile(o, SETTINGS).status
    assert status is not None
    if not never_ran:
        assert (status.failures, status.excluded_nodes) == (1, ())
        return
    assert (status.phase, status.reason, status.failures, status.faults) == (Phase.PENDING, "RuntimeFailed", 0, 0)
    assert [one.node for one in status.excluded_nodes] == ["n1"]
    assert status.usage is not None
    assert status.usage.gpu_milliseconds == 0


def test_a_rendezvous_that_failed_has_the_obstacle_of_the_pod_that_did_not_come() -> None:
    gave_up = exited(names.EXIT_RENDEZVOUS_TIMEOUT, reason="RendezvousTimeout", message="no s0", at=T0)
    late = server(nodes=1, waiting="Unschedulable: nowhere")
    o = observed(admitted(Phase.STARTING, ("n1", 1), servers=1), pod(0, end=gave_up), late)
    ending = pod_exits.ending(o, SETTINGS)
    assert ending is not None
    assert "no s0; server pod train-1-s0 does not start: Unschedulable: nowhere" in ending.message


def test_another_end_is_not_explained_by_an_obstacle() -> None:
    o = observed(
        admitted(Phase.STARTING, *TWO),
        pod(0, end=exited(3, message="no data", at=T0)),
        pod(1, waiting="ErrImagePull: no"),
    )
    ending = pod_exits.ending(o, SETTINGS)
    assert ending is not None
    assert "ErrImagePull" not in ending.message


def test_of_several_missing_pods_the_first_is_named_with_its_node() -> None:
    ending = pod_exits.ending(observed(admitted(Phase.RUNNING, *TWO, servers=1), UP[0]), SETTINGS)
    assert ending is not None
    assert ending.fields["last_exit"].node == "n2"
    assert ending.message.startswith("pod train-1-1 on node n2 was deleted by somebody")
