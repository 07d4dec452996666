"""What bench/chaos_cluster.py does to a whole cluster, one thing after another. Root: processes are found in /proc.

`strike` does it and returns what is to be undone, if anything, after `lasts_s`; it raises NothingThereError where
there is nothing of the kind just now. What it hits is drawn from `dice`.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

import chaos_jobs
from chaos_stage import NothingThereError, Stage, numbers_of

SYSTEM = "cotenant-system"
Undo = Callable[[], object]


# -- what may happen ----------------------------------------------------------------------------------------------


def in_pod(number: int, needle: str, *, name: str = "") -> Callable[[Stage], Undo | None]:
    """A signal to a process of a job's pod: by its command line, or by its short name."""

    def strike(stage: Stage) -> Undo | None:
        pods = stage.pods()
        stage.dice.shuffle(pods)
        for _, pod in pods:
            found = [pid for pid, line, comm in stage.processes(pod) if needle in line and comm.startswith(name)]
            if found:
                return _signal(stage, stage.dice.choice(found), number, f"{needle or name} in {pod}")
        raise NothingThereError(f"no {needle or name} just now")

    return strike


def launcher(stage: Stage) -> None:
    """PID 1 of a job's pod; nothing inside the pod could do that to it."""
    pods = stage.pods()
    stage.dice.shuffle(pods)
    for _, pod in pods:
        first = [
            pid for pid, line, _ in stage.processes(pod) if numbers_of(pid)[-1:] == [1] and "-m cotenant_w" in line
        ]
        if first:
            _signal(stage, first[0], signal.SIGKILL, f"launcher of {pod}")
            return
    raise NothingThereError("no launcher just now")


def _signal(stage: Stage, pid: int, number: int, what: str) -> Undo | None:
    stage.hit = what
    os.kill(pid, number)
    return (lambda: _go_on(pid)) if number == signal.SIGSTOP else None


def _go_on(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        return


def delete_pod(*options: str) -> Callable[[Stage], None]:
    def strike(stage: Stage) -> None:
        namespace, pod = stage.chosen(stage.pods(), "pod of a job")
        stage.kubectl("delete", "pod", pod, "-n", namespace, "--wait=false", *options)

    return strike


def of_cluster(number: int, *names: str) -> Callable[[Stage], Undo | None]:
    def strike(stage: Stage) -> Undo | None:
        name = stage.dice.choice(names)
        return _signal(stage, stage.component(name), number, name)

    return strike


def of_node(number: int, name: str) -> Callable[[Stage], Undo | None]:
    def strike(stage: Stage) -> Undo | None:
        node = stage.dice.choice(stage.nodes)
        return _signal(stage, stage.component(name, node), number, f"{name} of {node}")

    return strike


def node(action: str) -> Callable[[Stage], Undo]:
    def strike(stage: Stage) -> Undo:
        name = stage.chosen(stage.nodes, "node")
        stage.cluster.node(action, name)
        return lambda: stage.cluster.node("restore", name)

    return strike


def delete_node(stage: Stage) -> Undo:
    """The Node object only. Its kubelet registers anew when it starts again."""
    name = stage.chosen(stage.nodes, "node")
    stage.kubectl("delete", "node", name, "--wait=false")
    return lambda: os.kill(stage.component("kubelet", name), signal.SIGKILL)


def drain(stage: Stage) -> Undo:
    name = stage.chosen(stage.nodes, "node")
    stage.kubectl("cordon", name)
    only = ("--pod-selector=cotenant.dev/job", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=60s")
    try:
        stage.kubectl("drain", name, *only)
    finally:
        stage.kubectl("uncordon", name)
    return lambda: None


def operator(*, all_of_them: bool) -> Callable[[Stage], None]:
    def strike(stage: Stage) -> None:
        spec = json.loads(stage.kubectl("get", "lease", "cotenant-operator", "-n", SYSTEM, "-o", "json"))["spec"]
        leader = str(spec.get("holderIdentity") or "").rpartition("_")[0]
        wanted = [pod for _, pod in stage.pods(system="operator") if all_of_them or pod == leader]
        victims = [pid for pod in wanted for pid, line, _ in stage.processes(pod) if "operator" in line]
        if not victims:
            raise NothingThereError("nobody leads just now")
        stage.hit = ", ".join(wanted)
        for pid in victims:
            os.kill(pid, signal.SIGKILL)

    return strike


def agent(stage: Stage) -> None:
    _, pod = stage.chosen(stage.pods(system="agent"), "agent")
    for pid, line, _ in stage.processes(pod):
        if "agent" in line:
            os.kill(pid, signal.SIGKILL)


def preempt(stage: Stage) -> Undo:
    stage.urgent += 1
    job = chaos_jobs.urgent(stage.urgent, stage.dice.choice(chaos_jobs.TEAMS))
    stage.hit = f"by {job['metadata']['namespace']}/{job['metadata']['name']}"
    stage.kubectl("apply", "-f", "-", stdin=json.dumps(job))
    return lambda: None


def bad_api(stage: Stage) -> Undo:
    stage.cluster.api_faults(
        error_rate=0.15, lost_rate=0.05, latency_ms=50, cuts_per_min=6, seed=stage.dice.randrange(99)
    )
    return stage.cluster.api_faults


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    strike: Callable[[Stage], Undo | None]
    lasts_s: tuple[float, float] = (0.0, 0.0)
    """From when to when it is undone."""


KILL, STOP = signal.SIGKILL, signal.SIGSTOP
CONTROL_PLANE = ("kube-apiserver", "etcd", "kube-scheduler", "kube-controller-manager")
FAULTS = (
    Fault("rank killed", in_pod(KILL, "", name="rank-")),
    Fault("rank stopped for a while", in_pod(STOP, "", name="rank-"), (2, 40)),
    Fault("Ray's node process killed", in_pod(KILL, "cotenant_worker.ray_cluster.node_main")),
    Fault("raylet killed", in_pod(KILL, "raylet/raylet")),
    Fault("GCS killed", in_pod(KILL, "gcs/gcs_server")),
    Fault("launcher killed", launcher),
    Fault("pod deleted", delete_pod()),
    Fault("pod deleted by force", delete_pod("--grace-period=0", "--force")),
    Fault("kubelet killed", of_node(KILL, "kubelet")),
    Fault("kubelet stopped for a while", of_node(STOP, "kubelet"), (5, 100)),
    Fault("container runtime killed", of_node(KILL, "runtime")),
    Fault("node without power", node("stop"), (3, 100)),
    Fault("node frozen", node("freeze"), (3, 100)),
    Fault("node cut off from the API server", node("isolate"), (3, 100)),
    Fault("Node deleted", delete_node, (5, 40)),
    Fault("node drained", drain),
    Fault("leader killed", operator(all_of_them=False)),
    Fault("both operators killed", operator(all_of_them=True)),
    Fault("agent killed", agent),
    Fault("control plane: a part killed", of_cluster(KILL, *CONTROL_PLANE)),
    Fault("control plane: a part stopped", of_cluster(STOP, *CONTROL_PLANE), (3, 30)),
    Fault("bad API server", bad_api, (10, 30)),
    Fault("preempted", preempt),
)
