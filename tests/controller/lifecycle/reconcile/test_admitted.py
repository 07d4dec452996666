"""A job that holds its GPUs, starting or running. Pure: no cluster, no clock."""

from __future__ import annotations

import pytest

from cotenant import names
from cotenant.api.resources.gpunodes import Violation
from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.controller.informers.pods.disruption import Disruption
from cotenant.controller.isolation.verification import Verification
from cotenant.controller.lifecycle.observation import EventToRecord, Observation
from cotenant.controller.lifecycle.reconcile import reconcile
from cotenant.core.model.lifecycle import Phase
from tests.controller.builders import T0, admitted, exited, observed, pod, server
from tests.support.reconcile_cases import ONE, SETTINGS, TWO, Case, check, check_written_once

OVER = Violation(pod_uid="pod-1-0", uuid="GPU-n1-0", memory_mib=40_000, quota_mib=32_768, since=T0)


CODE = {"command": ["python", "a.py"], "code": {"configMap": {"name": "train-code"}}}
RAY_DIED_AT_50 = exited(names.EXIT_RAY_DIED, reason="RayDied", last_checkpoint_step=50)

STARTING = [
    Case(
        "a placement that nobody decided is given up before pods are made",
        observed(admitted(Phase.STARTING, *ONE), error="node n1 has no GPU GPU-x"),
        phase=Phase.PENDING, reason="PlacementImpossible", says="node n1 has no GPU GPU-x", holds=False,
    ),
    Case(
        "a placement that is not what its pods were given ends them",
        observed(admitted(Phase.RUNNING, *ONE), pod(0, ready=True),
                 error="pod train-1-0 was given other GPUs"),
        phase=Phase.EVICTING, reason="PlacementImpossible", says="was given other GPUs", delete=("train-1-0",),
    ),
    Case(
        "pods that are missing are made",
        observed(admitted(Phase.STARTING, *TWO), pod(0)),
        create=True, again=T0 + 300,
    ),
    Case(
        "a pod that was deleted by force is made again once its processes have ended",
        observed(admitted(Phase.STARTING, *TWO), pod(0, ready=True), departed=(pod(1, node="n2"),)),
        phase=Phase.STARTING, reason="PodStillRuns", says="pod train-1-1 was deleted by force", again=T0 + 300,
    ),
    Case(
        "a pod of an earlier attempt that was deleted by force holds GPUs that this one was not given",
        observed(admitted(Phase.STARTING, *TWO, attempts=2), pod(0, attempt=2), departed=(pod(1, node="n2"),)),
        create=True, again=T0 + 300,
    ),
    Case(
        "pods that are all there but not ready are waited for",
        observed(admitted(Phase.STARTING, *TWO), pod(0, ready=True), pod(1)),
        again=T0 + 300,
    ),
    Case(
        "it runs when every pod is ready",
        observed(admitted(Phase.STARTING, *TWO), pod(0, ready=True), pod(1, ready=True)),
        phase=Phase.RUNNING, reason="Running", says="2 workers running in 2 pods",
    ),
    Case(
        "a gang that is late is released and keeps away from the node that failed it",
        observed(admitted(Phase.STARTING, *TWO), pod(0, ready=True), pod(1, node="n2"), now=T0 + 300),
        phase=Phase.EVICTING, reason="StartTimeout", says="n2: the pod did not become ready",
        delete=("train-1-0", "train-1-1"),
    ),
    Case(
        "a pod that is stuck costs nobody its GPUs for more than half a minute",
        observed(admitted(Phase.STARTING, *TWO), pod(0, ready=True), pod(1, node="n2", waiting="ErrImagePull: no"),
                  now=T0 + 30),
        phase=Phase.EVICTING, reason="ErrImagePull", says="ErrImagePull: no. Nothing ran and nothing is charged",
        delete=("train-1-0", "train-1-1"),
    ),
    Case(
        "a pull that goes on is told, and goes on",
        observed(admitted(Phase.STARTING, *ONE), pod(waiting=""), now=T0 + 900),
        phase=Phase.STARTING, reason="PullingImage", says="pulls the image of pod train-1-0", again=T0 + 3600,
    ),
    Case(
        "a pod that cannot start says why at the job",
        observed(admitted(Phase.STARTING, *TWO), pod(0, ready=True), pod(1, waiting="ErrImagePull: no such"),
                  now=T0 + 20),
        phase=Phase.STARTING, reason="ErrImagePull", says="pod train-1-1 does not start: ErrImagePull: no such",
        again=T0 + 30,
    ),
    Case(
        "and says it once, whatever words the kubelet finds next",
        observed(admitted(Phase.STARTING, *ONE, reason="ErrImagePull"), pod(waiting="ImagePullBackOff: back-off"),
                  now=T0 + 20),
        again=T0 + 30,
    ),
    Case(
        "a pod that waits for its volumes names what the job mounts",
        observed(admitted(Phase.STARTING, *ONE), pod(preparing_since=T0 + 60), spec={"runtime": CODE}),
        phase=Phase.STARTING, reason="ContainerCreating",
        says="volumes or its network; look whether they are there: ConfigMap train-code", again=T0 + 300,
    ),
    Case(
        "but not before a volume had the time to be attached",
        observed(admitted(Phase.STARTING, *ONE), pod(preparing_since=T0 + 80)),
        again=T0 + 110,
    ),
    Case(
        "and is late for that reason",
        observed(admitted(Phase.STARTING, *ONE), pod(preparing_since=T0 + 10), now=T0 + 300, spec={"runtime": CODE}),
        phase=Phase.EVICTING, reason="StartTimeout", says="ConfigMap train-code", delete=("train-1-0",),
    ),
    Case(
        "a pod that cannot be made yet says why at the job",
        observed(admitted(Phase.STARTING, *ONE), creation_delay="pods/train-1-0 of an earlier job"),
        phase=Phase.STARTING, reason="NotCreated", says="an earlier job", create=True, again=T0 + 300,
    ),
    Case(
        "a pod that is refused gives its GPUs back at once, with the refusal's words",
        observed(admitted(Phase.STARTING, *ONE), creation_refusal="pods/train-1-0 was refused (403): exceeded quota"),
        phase=Phase.PENDING, reason="PodRefused", says="exceeded quota. Nothing ran", holds=False,
    ),
    Case(
        "a late gang of which nothing was made waits again at once",
        observed(admitted(Phase.STARTING, *ONE), now=T0 + 300, creation_delay="pods could not be made (403): quota"),
        phase=Phase.PENDING, reason="StartTimeout", says="403", holds=False,
    ),
    Case(
        "a gang whose launchers are late too often is given up",
        observed(admitted(Phase.STARTING, *ONE, faults=2), pod(), now=T0 + 300),
        phase=Phase.FAILED, reason="StartTimeout", delete=("train-1-0",), holds=False,
    ),
    Case(
        "a gang whose objects are refused for good fails with the server's words",
        observed(admitted(Phase.STARTING, *ONE), creation_rejection="the API server does not take pods/x: bad image"),
        phase=Phase.FAILED, reason="Refused", says="bad image", holds=False,
    ),
    Case(
        "a job that is done before it was seen ready has succeeded",
        observed(admitted(Phase.STARTING, *ONE), pod(end=exited(0, results={"loss": 0.1}))),
        phase=Phase.SUCCEEDED, reason="Completed", holds=False,
    ),
    Case(
        "what an earlier attempt left behind goes when the next one starts",
        observed(admitted(Phase.STARTING, *ONE, attempts=2), pod(attempt=1, end=exited(1)), pod(attempt=2)),
        delete=("train-1-0",), again=T0 + 300,
    ),
    Case(
        "nothing is made for a job that is being deleted",
        observed(admitted(Phase.STARTING, *TWO), pod(0), deleting=True),
        delete=("train-1-0",),
    ),
    Case(
        "a job that a finalizer of others keeps after its pods gives its GPUs back",
        observed(admitted(Phase.RUNNING, *TWO), pod(0, end=exited(143)), deleting=True),
        phase=Phase.PENDING, reason="Deleted", says="finalizers of others", holds=False,
    ),
    Case(
        "a job that is deleted while it is asked to leave gives its GPUs back too",
        observed(admitted(Phase.EVICTING, *ONE), deleting=True),
        phase=Phase.PENDING, reason="Preempted", holds=False,
    ),
    Case(
        "the pods of the next attempt are not made before those of this one are gone",
        observed(admitted(Phase.STARTING, *ONE, attempts=2), pod(attempt=1, deleting=True)),
        again=T0 + 300,
    ),
    Case(
        "unless they are on a node that does not answer",
        observed(admitted(Phase.STARTING, *ONE, attempts=2), pod(attempt=1, node="n2", deleting=True),
                  unreachable_nodes={"n2": T0}),
        create=True, again=T0 + 300,
    ),
    Case(
        "a job that is suspended while it starts is asked to leave",
        observed(admitted(Phase.STARTING, *ONE), pod(), spec={"suspend": True}),
        phase=Phase.EVICTING, reason="Suspended", delete=("train-1-0",),
    ),
    Case(
        "a job that is suspended before it has pods is suspended in the same step",
        observed(admitted(Phase.STARTING, *ONE), spec={"suspend": True}),
        phase=Phase.SUSPENDED, reason="Suspended", holds=False,
    ),
]  # fmt: skip

SERVED = {"runtime": {"entrypoint": "a:b", "strategy": "ParameterServer", "parameterServer": {"servers": 2}}}
NOWHERE = "Unschedulable: 0/3 nodes are available: 3 Insufficient cpu."
WITH_SERVERS = [
    Case(
        "the pods of servers are made with those of the ranks",
        observed(admitted(Phase.STARTING, *ONE, servers=2), pod(0, ready=True), server(0, nodes=1)),
        create=True, again=T0 + 300,
    ),
    Case(
        "it runs when the servers are ready too",
        observed(admitted(Phase.STARTING, *ONE, servers=1), pod(0, ready=True), server(nodes=1, ready=True)),
        phase=Phase.RUNNING, reason="Running", says="2 workers running in 1 pod, 1 parameter server beside them",
    ),
    Case(
        "a server that no node can take says so at the job",
        observed(admitted(Phase.STARTING, *ONE, servers=1), pod(0, ready=True), server(nodes=1, waiting=NOWHERE),
                  now=T0 + 20),
        phase=Phase.STARTING, reason="Unschedulable", says=f"server pod train-1-s0 does not start: {NOWHERE}",
        again=T0 + 30,
    ),
    Case(
        "GPUs are not held for ever for a server that no node can take, however often",
        observed(admitted(Phase.STARTING, *ONE, servers=1, faults=2), pod(0, ready=True),
                  server(nodes=1, waiting=NOWHERE), now=T0 + 30),
        phase=Phase.EVICTING, reason="Unschedulable", says=f"server pod train-1-s0 does not start: {NOWHERE}",
        delete=("train-1-0", "train-1-s0"),
    ),
    Case(
        "ranks that gave a server up do not know what the scheduler knows",
        observed(admitted(Phase.STARTING, *ONE, servers=1), server(nodes=1, waiting=NOWHERE),
                  pod(0, end=exited(80, at=T0, reason="RendezvousTimeout", message="no s0")), now=T0 + 20),
        phase=Phase.EVICTING, reason="RendezvousTimeout",
        says=f"no s0; server pod train-1-s0 does not start: {NOWHERE}",
        delete=("train-1-s0",),
    ),
    Case(
        "a server that is lost takes the gang with it",
        observed(admitted(Phase.RUNNING, *TWO, servers=2), pod(0, ready=True), pod(1, ready=True),
                  server(0, nodes=2, ready=True)),
        phase=Phase.EVICTING, reason="PodLost", says="pod train-1-s1 was deleted by somebody",
        delete=("train-1-0", "train-1-1", "train-1-s0"),
    ),
    Case(
        "a server that died explains the ranks that lost it",
        observed(admitted(Phase.RUNNING, *ONE, servers=1), pod(0, end=exited(82, at=T0 + 91, reason="PeerLost")),
                  server(nodes=1, end=exited(137, at=T0 + 90, reason="OutOfMemory", message="ask for more"))),
        phase=Phase.FAILED, reason="OutOfMemory",
        says="the job (pod train-1-s0 on node cpu) ended with 137 (OutOfMemory): ask for more",
        holds=False,
    ),
    Case(
        "a node with nothing but a server that does not answer is left as well",
        observed(admitted(Phase.RUNNING, *ONE, servers=1), pod(0, ready=True), server(nodes=1, ready=True),
                  unreachable_nodes={"cpu": T0}),
        phase=Phase.EVICTING, reason="NodeLost", says="cpu has not answered", delete=("train-1-0", "train-1-s0"),
    ),
    Case(
        "servers that stay behind when all ranks are done are ended",
        observed(admitted(Phase.RUNNING, *ONE, servers=1), pod(0, end=exited(0, at=T0 + 90)),
                  server(nodes=1, ready=True)),
        phase=Phase.SUCCEEDED, reason="Completed", delete=("train-1-s0",), holds=False,
    ),
    Case(
        "an attempt whose servers were in the pods of its ranks goes on as it is",
        observed(admitted(Phase.RUNNING, *ONE), pod(0, ready=True), spec=SERVED),
    ),
]  # fmt: skip

RUNNING = [
    Case("nothing happens while all is well", observed(admitted(Phase.RUNNING, *ONE), pod(ready=True))),
    Case(
        "it has succeeded when every pod ended with 0",
        observed(admitted(Phase.RUNNING, *TWO), pod(0, end=exited(0, results={"loss": 0.1})), pod(1, end=exited(0))),
        phase=Phase.SUCCEEDED, reason="Completed", says="2 workers finished", holds=False,
    ),
    Case(
        "where it ended is said, if that is not the last step",
        observed(admitted(Phase.RUNNING, *ONE), pod(0, end=exited(0, step=20, of=1000))),
        phase=Phase.SUCCEEDED, reason="Completed", says="2 workers finished, at step 20 of 1000", holds=False,
    ),
    Case(
        "rank 0 that ended waits a moment for the others",
        observed(admitted(Phase.RUNNING, *TWO), pod(0, end=exited(0, at=T0 + 98)), pod(1, ready=True)),
        again=T0 + 103,
    ),
    Case(
        "and then ends them",
        observed(admitted(Phase.RUNNING, *TWO), pod(0, end=exited(0, at=T0 + 98)), pod(1, ready=True), now=T0 + 103),
        phase=Phase.SUCCEEDED, reason="Completed", delete=("train-1-1",), holds=False,
    ),
    Case(
        "a failure without retries is the end, with the words of the rank that failed",
        observed(admitted(Phase.RUNNING, *ONE), pod(end=exited(3, rank=1, message="ValueError: no data"))),
        phase=Phase.FAILED, reason="UserError",
        says="rank 1 (pod train-1-0 on node n1) ended with 3 (UserError): ValueError: no data",
        holds=False,
    ),
    Case(
        "a failure with a retry left waits again",
        observed(admitted(Phase.RUNNING, *ONE), pod(end=exited(3, rank=0)), spec={"retries": 1}),
        phase=Phase.PENDING, reason="UserError", says="tried again", holds=False,
    ),
    Case(
        "the pods that still run are ended before it is tried again",
        observed(admitted(Phase.RUNNING, *TWO), pod(0, ready=True), pod(1, end=exited(3, at=T0 + 90, rank=1)),
                  spec={"retries": 1}),
        phase=Phase.EVICTING, reason="UserError", delete=("train-1-0",),
    ),
    Case(
        "the retries are counted",
        observed(admitted(Phase.RUNNING, *ONE, failures=2), pod(end=exited(3, rank=0)), spec={"retries": 2}),
        phase=Phase.FAILED, reason="UserError", says="all 2 retries are used", holds=False,
    ),
    Case(
        "a fault of the platform is not charged",
        observed(admitted(Phase.RUNNING, *ONE), pod(end=exited(names.EXIT_RAY_DIED, reason="RayDied"))),
        phase=Phase.PENDING, reason="RayDied", holds=False,
    ),
    Case(
        "but not repeated for ever",
        observed(admitted(Phase.RUNNING, *ONE, faults=2), pod(end=exited(names.EXIT_RAY_DIED, reason="RayDied"))),
        phase=Phase.FAILED, reason="RayDied", holds=False,
    ),
    Case(
        "unless it has saved something new since the last one",
        observed(admitted(Phase.RUNNING, *ONE, faults=2, saved_at_fault=40), pod(end=RAY_DIED_AT_50)),
        phase=Phase.PENDING, reason="RayDied", holds=False,
    ),
    Case(
        "another attempt at a broken contract would end the same way",
        observed(admitted(Phase.RUNNING, *ONE), pod(end=exited(names.EXIT_BAD_CONTRACT, reason="BadContract")),
                  spec={"retries": 5}),
        phase=Phase.FAILED, reason="BadContract", holds=False,
    ),
    Case(
        "a pod that was drained away costs nothing",
        observed(admitted(Phase.RUNNING, *ONE, faults=2), pod(end=exited(names.EXIT_PREEMPTED, reason="Preempted"))),
        phase=Phase.PENDING, reason="Preempted", holds=False,
    ),
    Case(
        "a pod that disappears takes its gang with it",
        observed(admitted(Phase.RUNNING, *TWO), pod(0, ready=True)),
        phase=Phase.EVICTING, reason="PodLost", says="train-1-1 on node n2", delete=("train-1-0",),
    ),
    Case(
        "a job has succeeded if one pod is left that says so, as after an operator was away",
        observed(admitted(Phase.RUNNING, *TWO), pod(1, end=exited(0)), now=T0 + 1000),
        phase=Phase.SUCCEEDED, reason="Completed", says="2 workers finished", holds=False,
    ),
    Case(
        "one that was drained and gone before anybody looked is told as drained",
        observed(admitted(Phase.RUNNING, *TWO), pod(0, ready=True),
                  disruptions={"train-1-1": Disruption("Drained", "was evicted, as `kubectl drain` does")}),
        phase=Phase.EVICTING, reason="Drained", says="pod train-1-1 on node n2 was evicted", delete=("train-1-0",),
    ),
    Case(
        "a pod over its share of memory ends the job, with the numbers",
        observed(admitted(Phase.RUNNING, *ONE), pod(ready=True), violations={"pod-1-0": OVER}),
        phase=Phase.FAILED, reason="GPUMemoryQuotaExceeded", says="used 40000 MiB of GPU-n1-0, its share is 32768 MiB",
        delete=("train-1-0",), holds=False,
    ),
    Case(
        "a rank that sees other GPUs than it was granted is stopped",
        observed(admitted(Phase.RUNNING, *ONE), pod(ready=True),
                 isolation=Verification(mismatch="rank 0 sees GPU-b but was granted GPU-a", node="n1")),
        phase=Phase.EVICTING, reason="IsolationMismatch", says="sees GPU-b", delete=("train-1-0",),
    ),
    Case(
        "a job leaves a GPU that works no longer, and is not charged",
        observed(admitted(Phase.RUNNING, *ONE), pod(ready=True), sick_gpus={"GPU-n1-0": "XID48: double-bit error"}),
        phase=Phase.EVICTING, reason="GPUUnhealthy",
        says="GPU GPU-n1-0 is not healthy: XID48: double-bit error; the job gets other GPUs", delete=("train-1-0",),
    ),
    Case(
        "also while it starts",
        observed(admitted(Phase.STARTING, *ONE), pod(), sick_gpus={"GPU-n1-0": "GpuLost"}),
        phase=Phase.EVICTING, reason="GPUUnhealthy", says="GPU-n1-0 is not healthy: GpuLost", delete=("train-1-0",),
    ),
    Case(
        "maxRuntime is waited for",
        observed(admitted(Phase.RUNNING, *ONE), pod(ready=True), spec={"maxRuntime": "2m"}),
        again=T0 + 130,
    ),
    Case(
        "and ends the job",
        observed(admitted(Phase.RUNNING, *ONE), pod(ready=True), spec={"maxRuntime": "2m"}, now=T0 + 130),
        phase=Phase.FAILED, reason="MaxRuntimeExceeded", delete=("train-1-0",), holds=False,
    ),
    Case(
        "an idle job is ended",
        observed(admitted(Phase.RUNNING, *ONE), pod(ready=True), spec={"idleTimeout": "1m"}, idle_since=T0 + 40),
        phase=Phase.FAILED, reason="IdleTimeout", delete=("train-1-0",), holds=False,
    ),
    Case(
        "a node that does not answer is given a minute",
        observed(admitted(Phase.RUNNING, *ONE), pod(ready=True), unreachable_nodes={"n1": T0 + 90}),
        again=T0 + 150,
    ),
    Case(
        "and then the gang leaves it",
        observed(admitted(Phase.RUNNING, *ONE), pod(ready=True), unreachable_nodes={"n1": T0 + 90}, now=T0 + 150),
        phase=Phase.EVICTING, reason="NodeLost", says="n1 has not answered for 60 s", delete=("train-1-0",),
    ),
    Case(
        "a node without pods of the job may do what it likes",
        observed(admitted(Phase.RUNNING, *ONE), pod(ready=True), unreachable_nodes={"n9": T0}),
    ),
    Case(
        "a placement that somebody removed by hand is not kept by guessing",
        observed(admitted(Phase.RUNNING, *ONE, placement=None), pod(ready=True)),
        phase=Phase.EVICTING, reason="PlacementLost", delete=("train-1-0",), holds=False,
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", [*STARTING, *RUNNING, *WITH_SERVERS], ids=lambda case: case.name)
def test_a_job_that_holds_its_gpus(case: Case) -> None:
    check(case)
    check_written_once(case)


def event_of(o: Observation) -> EventToRecord:
    event = reconcile(o, SETTINGS).event
    assert event is not None
    return event


@pytest.mark.parametrize(
    ("o", "reason", "warning"),
    [
        (observed(admitted(Phase.STARTING, *ONE), pod(ready=True)), "Running", False),
        (observed(admitted(Phase.RUNNING, *ONE), pod(ready=True), spec={"suspend": True}), "Suspended", False),
        (observed(TrainingJobStatus(phase=Phase.RUNNING, attempts=1), pod(ready=True)), "PlacementLost", True),
        (observed(admitted(Phase.RUNNING, *ONE), pod(ready=True), error="is held"), "PlacementImpossible", True),
        (
            observed(admitted(Phase.RUNNING, *ONE), pod(ready=True), violations={"pod-1-0": OVER}),
            "GPUMemoryQuotaExceeded",
            True,
        ),
        (observed(admitted(Phase.STARTING, *ONE), pod(), creation_delay="no quota"), "NotCreated", True),
    ],
    ids=["up", "suspended", "placement removed", "placement edited", "over its GPU memory", "pods cannot be made"],
)
def test_what_a_tenant_has_to_see_is_a_warning(o: Observation, reason: str, warning: bool) -> None:
    event = event_of(o)
    assert (event.reason, event.warning) == (reason, warning)


def test_servers_are_named_beside_the_workers_that_run() -> None:
    status = admitted(Phase.STARTING, *ONE, servers=1)
    event = event_of(observed(status, pod(ready=True), server(nodes=1, ready=True)))
    assert event.message == (
        "2 workers running in 1 pod, 1 parameter server beside them; its logs: kubectl logs -n red"
        " -l cotenant.dev/job=train --prefix -f"
    )


def test_the_first_start_is_kept_over_later_ones() -> None:
    first = reconcile(observed(admitted(Phase.STARTING, *ONE), pod(ready=True), now=T0 + 5), SETTINGS).status
    assert first is not None
    assert first.started_at is not None
    assert first.started_at.timestamp() == T0 + 5
    again = admitted(Phase.STARTING, *ONE, started_at=first.started_at)
    later = reconcile(observed(again, pod(ready=True), now=T0 + 50), SETTINGS).status
    assert later is not None
    assert later.started_at == first.started_at


def test_objects_that_are_refused_for_good_are_the_last_exit_without_a_code_of_the_program() -> None:
    status = reconcile(observed(admitted(Phase.STARTING, *ONE), creation_rejection="denied"), SETTINGS).status
    assert status is not None
    assert status.last_exit is not None
    assert (status.last_exit.code, status.last_exit.reason, status.last_exit.message) == (-1, "Refused", "denied")


def test_a_rank_that_sees_other_gpus_is_an_exit_without_a_code_of_the_program() -> None:
    status = reconcile(
        observed(admitted(Phase.RUNNING, *ONE), pod(ready=True), isolation=Verification(mismatch="x")), SETTINGS
    ).status
    assert status is not None
    assert status.last_exit is not None
    assert (status.last_exit.code, status.last_exit.reason, status.last_exit.message) == (-1, "IsolationMismatch", "x")


def test_the_event_of_a_job_that_runs_has_the_command_that_shows_its_logs() -> None:
    result = reconcile(observed(admitted(Phase.STARTING, *ONE), pod(ready=True)), SETTINGS)
    assert result.event is not None
    assert result.event.message.endswith("; its logs: kubectl logs -n red -l cotenant.dev/job=train --prefix -f")
    assert result.status is not None
    assert "kubectl" not in (result.status.message or "")
