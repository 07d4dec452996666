"""Faults of a worker pod in a `PodSandbox`, each with the reasons that the pods of its job may end with."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.support.pod import Pod
from tests.support.pod_sandbox import PodSandbox

PLATFORM = {"PeerLost", "RayDied", "RendezvousTimeout"}
COMPLETED = {"Completed"}
FILLER = "foreign-data"


def processes(pod: Pod, needle: str) -> list[int]:
    found = pod.processes(needle)
    if not found:
        raise FileNotFoundError(f"no {needle} in pod {pod.index} yet")
    return found


def kill(number: int, needle: str) -> Callable[[PodSandbox, Pod], None]:
    def inject(sandbox: PodSandbox, pod: Pod) -> None:
        os.kill(processes(pod, needle)[-1], number)

    return inject


def kill_rank(number: int) -> Callable[[PodSandbox, Pod], None]:
    def inject(sandbox: PodSandbox, pod: Pod) -> None:
        os.kill(pod.rank_process(sandbox.contract.pods[pod.index].ranks[-1].rank), number)

    return inject


def kill_pod(sandbox: PodSandbox, pod: Pod) -> None:
    os.kill(pod.launcher, signal.SIGKILL)


def freeze(sandbox: PodSandbox, pod: Pod) -> None:
    """Stop every process of the pod, as when its node hangs: its connections stay open."""
    for pid in processes(pod, ""):
        if pid == pod.process.pid:  # outside the pod: the parent that waits for it
            continue
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)


def cut(sandbox: PodSandbox, pod: Pod) -> None:
    """Disconnect the pod's network for good."""
    sandbox.disconnect(pod.index)


def flap(sandbox: PodSandbox, pod: Pod) -> None:
    """Disconnect the pod's network for 3 s: shorter than every timeout."""
    sandbox.disconnect(pod.index)
    time.sleep(3.0)
    sandbox.reconnect(pod.index)


def fill(sandbox: PodSandbox, pod: Pod) -> None:
    """Fill the volume that takes the checkpoints."""
    assert sandbox.contract.checkpoint is not None
    with (
        contextlib.suppress(OSError),
        (Path(sandbox.contract.checkpoint.path) / FILLER).open("wb", buffering=0) as file,
    ):
        while file.write(b"\0" * 4096) == 4096:
            pass


def preempt(sandbox: PodSandbox, pod: Pod) -> None:
    for each in sandbox.pods:
        each.signal(signal.SIGTERM)


def drain(sandbox: PodSandbox, pod: Pod) -> None:
    """Terminate one pod only, as `kubectl drain` does."""
    pod.signal(signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class PodFault:
    name: str
    inject: Callable[[PodSandbox, Pod], None]
    reasons: set[str]
    """Reasons that pods may end with, besides `Completed` when the fault came too late."""
    silent: bool = False
    """The pod that is hit writes no termination message: it is removed once the others have ended."""
    head: bool | None = None
    """True: only in rank 0's pod; False: only in others; None: anywhere."""
    training: bool = False
    """Injected only once ranks train: before their first collective only the framework's own deadline finds it."""


RAY = PLATFORM | COMPLETED
FAULTS = (
    PodFault("rank killed", kill_rank(signal.SIGKILL), COMPLETED),
    PodFault("rank stopped", kill_rank(signal.SIGSTOP), COMPLETED | {"HungCollective"}, training=True),
    PodFault("warm process killed", kill(signal.SIGKILL, "cotenant_worker.ranks.fork_server"), COMPLETED),
    PodFault("head pod killed", kill_pod, RAY, silent=True, head=True),
    PodFault("other pod killed", kill_pod, RAY, silent=True, head=False),
    PodFault("GCS killed", kill(signal.SIGKILL, "gcs/gcs_server"), RAY, head=True),
    PodFault("raylet killed", kill(signal.SIGKILL, "raylet/raylet"), RAY),
    PodFault("Ray's actor killed", kill(signal.SIGKILL, "ray::PodActor"), COMPLETED),
    PodFault("Ray's actor stopped", kill(signal.SIGSTOP, "ray::PodActor"), COMPLETED),
    PodFault("a Ray process killed", kill(signal.SIGKILL, "ray::IDLE"), COMPLETED),
    PodFault("stand-in for Ray's agent killed", kill(signal.SIGKILL, "idle_agent.py"), RAY),
    PodFault("node process killed", kill(signal.SIGKILL, "cotenant_worker.ray_cluster.node_main"), RAY),
    PodFault("other pod frozen", freeze, RAY, silent=True, head=False),
    PodFault("head pod frozen", freeze, RAY, silent=True, head=True),
    PodFault("other pod cut off", cut, RAY, head=False),
    PodFault("network gone for 3 s", flap, RAY),
    PodFault("checkpoint volume full", fill, COMPLETED | {"UserError"}, training=True),
    PodFault("preempted", preempt, {"Preempted", "Completed"}),
    PodFault("one pod drained", drain, {"Preempted", "Completed", "PeerLost", "RendezvousTimeout"}),
)
