"""Every process of a cluster is killed in turn: it is told with its last words, and started again; the rest goes on."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cotenant_local.cluster import lifecycle, reports
from cotenant_local.controlplane import components, control_socket
from cotenant_local.host.addresses import FAMILIES
from cotenant_local.host.errors import LocalError
from cotenant_local.host.procfs import descendants, is_stopped
from tests.live.waiting import wait_until

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]
OF_THE_CLUSTER = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "forward",
    "metrics",
    "coredns",
    "volumes",
)
OF_A_NODE = ("node-1/runtime", "node-1/kube-proxy", "node-1/kubelet")


def seen(cluster: "Cluster", component: str) -> Any:
    status = lifecycle.status(cluster.name)
    node, _, name = component.rpartition("/")
    return (status["nodes"][node] if node else status)["components"][name]


def process(cluster: "Cluster", component: str) -> int:
    """The process id in this test's namespace. The status has the id in the process's own namespace."""
    wanted, node = seen(cluster, component)["pid"], component.rpartition("/")[0]
    top = control_socket.peer(cluster.state.control)
    depth = len(numbers(top)) + bool(node)
    if node:  # the other node has a process of this number too
        (top,) = [pid for pid in descendants(top) if is_first_of(pid, node) and len(numbers(pid)) == depth]
    (pid,) = [pid for pid in descendants(top) if numbers(pid)[-1:] == [wanted] and len(numbers(pid)) == depth]
    return pid


def is_first_of(pid: int, node: str) -> bool:
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return False
    return "cotenant_local.node.init" in arguments and node in arguments


def numbers(pid: int) -> list[int]:
    """Ids of a process in each PID namespace from here inwards; none if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return []
    return [int(number) for line in lines if line.startswith("NSpid:") for number in line.split()[1:]]


def end(cluster: "Cluster", component: str, how: signal.Signals) -> dict[str, Any]:
    """Its death as the status has it, at the first moment at which it has it."""
    wait_until(lambda: seen(cluster, component)["pid"], f"{component} to run")
    before = seen(cluster, component)["restarts"]
    os.kill(process(cluster, component), how)
    wait_until(lambda: seen(cluster, component)["restarts"] == before + 1, f"the death of {component} to be told")
    death: dict[str, Any] = seen(cluster, component)["lastDeath"]
    return death


@pytest.mark.parametrize("component", [*OF_THE_CLUSTER, *OF_A_NODE])
def test_a_component_that_is_killed_is_told_and_started_again(local_cluster: "Cluster", component: str) -> None:
    death = end(local_cluster, component, signal.SIGKILL)
    wait_until(lambda: seen(local_cluster, component)["pid"], f"{component} to be started again")
    assert (death["service"], death["how"]) == (component.rpartition("/")[2], "signal 9 (SIGKILL)")
    log = local_cluster.state.logs / f"{component}.log"
    assert set(death["last_lines"].splitlines()) <= set(log.read_text(errors="replace").splitlines())


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=lambda value: value.name)
def test_whoever_asks_the_api_server_while_it_is_away_waits_and_is_answered(
    local_cluster: "Cluster", how: signal.Signals
) -> None:
    """A client that is refused instead pauses longer each time, and pods wait with the scheduler and the kubelet."""
    death = end(local_cluster, "kube-apiserver", how)
    there = ["nsenter", f"--target={control_socket.peer(local_cluster.state.control)}", "--net"]
    there += ["--user", "--preserve-credentials"] if os.geteuid() else []
    connect = f"import socket; socket.create_connection(('{FAMILIES['IPv4'].control_plane}', {components.API_PORT}))"
    subprocess.run([*there, sys.executable, "-c", connect], check=True)
    assert local_cluster.kubectl("get", "--raw", "/readyz") == "ok"
    assert death["how"] == {signal.SIGKILL: "signal 9 (SIGKILL)", signal.SIGTERM: "exit code 0"}[how]


def test_the_cluster_works_after_all_that(local_cluster: "Cluster") -> None:
    def runs() -> bool:
        try:
            said = local_cluster.kubectl(
                *("run", "after", "--image=ghcr.io/cotenant/tools", "--restart=Never", "--attach", "--rm", "--quiet"),
                *("--pod-running-timeout=2m", "--", "getent", "hosts", "kubernetes.default.svc.cluster.local"),
            )
        except LocalError:
            with contextlib.suppress(LocalError):
                local_cluster.kubectl("delete", "pod", "after", "--ignore-not-found", "--wait")
            return False
        return "10.96.0.1" in said

    wait_until(runs, "a pod to run and to resolve a name")


def test_a_node_whose_first_process_is_stopped_by_a_signal_is_told(local_cluster: "Cluster") -> None:
    everything = descendants(control_socket.peer(local_cluster.state.control))
    # Not its `unshare`, nor a child that has not become its own program yet: both have the same arguments.
    (first,) = (pid for pid in everything if is_first_of(pid, "node-2") and numbers(pid)[-1:] == [1])
    os.kill(first, signal.SIGSTOP)
    wait_until(lambda: is_stopped(first), "the first process to stop")
    try:
        said = reports.as_text(lifecycle.status(local_cluster.name))
    finally:
        os.kill(first, signal.SIGCONT)
    assert "node node-2 (10.89.0.11): its first process is stopped by a signal" in said


@pytest.mark.parametrize("component", ["coredns", "node-1/kube-proxy"])
def test_a_component_that_is_stopped_by_a_signal_is_told(local_cluster: "Cluster", component: str) -> None:
    wait_until(lambda: seen(local_cluster, component)["pid"], f"{component} to run")
    pid = process(local_cluster, component)
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: seen(local_cluster, component)["stopped"], f"{component} to be seen as stopped")
        assert "stopped by a signal" in reports.as_text(lifecycle.status(local_cluster.name))
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: not seen(local_cluster, component)["stopped"], f"{component} to go on")
