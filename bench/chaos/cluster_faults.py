"""Faults in a whole cluster, for bench/chaos/cluster.py. Root: processes are found in /proc.

`inject` injects the fault and returns what undoes it after `lasts_s`, if anything. It raises NoTargetError if nothing
runs that the fault could hit. The target is drawn from `dice`.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

from bench.chaos import cluster_jobs
from bench.chaos.cluster_access import ClusterAccess, NoTargetError, numbers_of

SYSTEM = "cotenant-system"
Undo = Callable[[], object]


def in_pod(number: int, needle: str, *, name: str = "") -> Callable[[ClusterAccess], Undo | None]:
    """Signal a process of a job's pod: by its command line, or by its short name."""

    def inject(access: ClusterAccess) -> Undo | None:
        pods = access.pods()
        access.dice.shuffle(pods)
        for _, pod in pods:
            found = [pid for pid, line, comm in access.processes(pod) if needle in line and comm.startswith(name)]
            if found:
                return _signal(access, access.dice.choice(found), number, f"{needle or name} in {pod}")
        raise NoTargetError(f"no {needle or name} just now")

    return inject


def launcher(access: ClusterAccess) -> None:
    """Kill PID 1 of a job's pod, which no process inside the pod can."""
    pods = access.pods()
    access.dice.shuffle(pods)
    for _, pod in pods:
        first = [
            pid for pid, line, _ in access.processes(pod) if numbers_of(pid)[-1:] == [1] and "-m cotenant_w" in line
        ]
        if first:
            _signal(access, first[0], signal.SIGKILL, f"launcher of {pod}")
            return
    raise NoTargetError("no launcher just now")


def _signal(access: ClusterAccess, pid: int, number: int, what: str) -> Undo | None:
    access.hit = what
    os.kill(pid, number)
    return (lambda: _go_on(pid)) if number == signal.SIGSTOP else None


def _go_on(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        return


def delete_pod(*options: str) -> Callable[[ClusterAccess], None]:
    def inject(access: ClusterAccess) -> None:
        namespace, pod = access.choose(access.pods(), "pod of a job")
        access.kubectl("delete", "pod", pod, "-n", namespace, "--wait=false", *options)

    return inject


def of_cluster(number: int, *names: str) -> Callable[[ClusterAccess], Undo | None]:
    def inject(access: ClusterAccess) -> Undo | None:
        name = access.dice.choice(names)
        return _signal(access, access.component(name), number, name)

    return inject


def of_node(number: int, name: str) -> Callable[[ClusterAccess], Undo | None]:
    def inject(access: ClusterAccess) -> Undo | None:
        node = access.dice.choice(access.nodes)
        return _signal(access, access.component(name, node), number, f"{name} of {node}")

    return inject


def node(action: str) -> Callable[[ClusterAccess], Undo]:
    def inject(access: ClusterAccess) -> Undo:
        name = access.choose(access.nodes, "node")
        access.cluster.node(action, name)
        return lambda: access.cluster.node("restore", name)

    return inject


def delete_node(access: ClusterAccess) -> Undo:
    """Delete the Node object only. Its kubelet registers anew when it starts again."""
    name = access.choose(access.nodes, "node")
    access.kubectl("delete", "node", name, "--wait=false")
    return lambda: os.kill(access.component("kubelet", name), signal.SIGKILL)


def drain(access: ClusterAccess) -> Undo:
    name = access.choose(access.nodes, "node")
    access.kubectl("cordon", name)
    only = ("--pod-selector=cotenant.dev/job", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=60s")
    try:
        access.kubectl("drain", name, *only)
    finally:
        access.kubectl("uncordon", name)
    return lambda: None


def operator(*, all_of_them: bool) -> Callable[[ClusterAccess], None]:
    def inject(access: ClusterAccess) -> None:
        spec = json.loads(access.kubectl("get", "lease", "cotenant-operator", "-n", SYSTEM, "-o", "json"))["spec"]
        leader = str(spec.get("holderIdentity") or "").rpartition("_")[0]
        wanted = [pod for _, pod in access.pods(system="operator") if all_of_them or pod == leader]
        victims = [pid for pod in wanted for pid, line, _ in access.processes(pod) if "operator" in line]
        if not victims:
            raise NoTargetError("no operator leads just now")
        access.hit = ", ".join(wanted)
        for pid in victims:
            os.kill(pid, signal.SIGKILL)

    return inject


def agent(access: ClusterAccess) -> None:
    _, pod = access.choose(access.pods(system="agent"), "agent")
    for pid, line, _ in access.processes(pod):
        if "agent" in line:
            os.kill(pid, signal.SIGKILL)


def preempt(access: ClusterAccess) -> Undo:
    access.urgent += 1
    job = cluster_jobs.urgent(access.urgent, access.dice.choice(cluster_jobs.TEAMS))
    access.hit = f"by {job['metadata']['namespace']}/{job['metadata']['name']}"
    access.kubectl("apply", "-f", "-", stdin=json.dumps(job))
    return lambda: None


def faulty_api_server(access: ClusterAccess) -> Undo:
    access.cluster.api_faults(
        error_rate=0.15, lost_rate=0.05, latency_ms=50, cuts_per_min=6, seed=access.dice.randrange(99)
    )
    return access.cluster.api_faults


@dataclass(frozen=True, slots=True)
class ClusterFault:
    name: str
    inject: Callable[[ClusterAccess], Undo | None]
    lasts_s: tuple[float, float] = (0.0, 0.0)
    """Shortest and longest duration until it is undone, in seconds."""


KILL, STOP = signal.SIGKILL, signal.SIGSTOP
CONTROL_PLANE = ("kube-apiserver", "etcd", "kube-scheduler", "kube-controller-manager")
FAULTS = (
    ClusterFault("rank killed", in_pod(KILL, "", name="rank-")),
    ClusterFault("rank stopped for a while", in_pod(STOP, "", name="rank-"), (2, 40)),
    ClusterFault("Ray's node process killed", in_pod(KILL, "cotenant_worker.ray_cluster.node_main")),
    ClusterFault("raylet killed", in_pod(KILL, "raylet/raylet")),
    ClusterFault("GCS killed", in_pod(KILL, "gcs/gcs_server")),
    ClusterFault("launcher killed", launcher),
    ClusterFault("pod deleted", delete_pod()),
    ClusterFault("pod deleted by force", delete_pod("--grace-period=0", "--force")),
    ClusterFault("kubelet killed", of_node(KILL, "kubelet")),
    ClusterFault("kubelet stopped for a while", of_node(STOP, "kubelet"), (5, 100)),
    ClusterFault("container runtime killed", of_node(KILL, "runtime")),
    ClusterFault("node without power", node("stop"), (3, 100)),
    ClusterFault("node frozen", node("freeze"), (3, 100)),
    ClusterFault("node cut off from the API server", node("isolate"), (3, 100)),
    ClusterFault("Node deleted", delete_node, (5, 40)),
    ClusterFault("node drained", drain),
    ClusterFault("leader killed", operator(all_of_them=False)),
    ClusterFault("both operators killed", operator(all_of_them=True)),
    ClusterFault("agent killed", agent),
    ClusterFault("control plane: a part killed", of_cluster(KILL, *CONTROL_PLANE)),
    ClusterFault("control plane: a part stopped", of_cluster(STOP, *CONTROL_PLANE), (3, 30)),
    ClusterFault("bad API server", faulty_api_server, (10, 30)),
    ClusterFault("preempted", preempt),
)
