"""What `bench/chaos.py` does to a worker pod, and which reasons the pods of the job may end with afterwards."""

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
GOES_ON = {"Completed"}
FILLER = "somebody-elses"


def processes(pod: Pod, needle: str) -> list[int]:
    found = pod.processes(needle)
    if not found:
        raise FileNotFoundError(f"no {needle} in pod {pod.index} yet")
    return found


def kill(number: int, needle: str) -> Callable[[PodSandbox, Pod], None]:
    def strike(world: PodSandbox, pod: Pod) -> None:
        os.kill(processes(pod, needle)[-1], number)

    return strike


def kill_rank(number: int) -> Callable[[PodSandbox, Pod], None]:
    def strike(world: PodSandbox, pod: Pod) -> None:
        os.kill(pod.rank_process(world.contract.pods[pod.index].ranks[-1].rank), number)

    return strike


def kill_pod(world: PodSandbox, pod: Pod) -> None:
    os.kill(pod.launcher, signal.SIGKILL)


def freeze(world: PodSandbox, pod: Pod) -> None:
    """As a node that hangs: nothing of the pod runs any more, and its connections stay open."""
    for pid in processes(pod, ""):
        if pid == pod.process.pid:  # outside: it waits for the pod on our behalf
            continue
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)


def cut(world: PodSandbox, pod: Pod) -> None:
    """The pod's cable."""
    world.disconnect(pod.index)


def flap(world: PodSandbox, pod: Pod) -> None:
    """A network that is gone for some seconds: shorter than anybody's patience."""
    world.disconnect(pod.index)
    time.sleep(3.0)
    world.reconnect(pod.index)


def fill(world: PodSandbox, pod: Pod) -> None:
    """Somebody else's data on the volume that takes the checkpoints."""
    assert world.contract.checkpoint is not None
    with contextlib.suppress(OSError), (Path(world.contract.checkpoint.path) / FILLER).open("wb", buffering=0) as file:
        while file.write(b"\0" * 4096) == 4096:
            pass


def preempt(world: PodSandbox, pod: Pod) -> None:
    for each in world.pods:
        each.signal(signal.SIGTERM)


def drain(world: PodSandbox, pod: Pod) -> None:
    """One pod only is asked to leave, as by `kubectl drain`."""
    pod.signal(signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    strike: Callable[[PodSandbox, Pod], None]
    reasons: set[str]
    """What pods that can still speak may say, besides Completed when the fault came too late."""
    silent: bool = False
    """The pod that is struck says nothing any more: it is removed once the others have ended."""
    head: bool | None = None
    """Only in rank 0's pod, only in others, or anywhere."""
    training: bool = False
    """Only once ranks train: before their first collective only the framework's own deadline finds it."""


RAY = PLATFORM | GOES_ON
FAULTS = (
    Fault("rank killed", kill_rank(signal.SIGKILL), GOES_ON),
    Fault("rank stopped", kill_rank(signal.SIGSTOP), GOES_ON | {"HungCollective"}, training=True),
    Fault("warm process killed", kill(signal.SIGKILL, "cotenant_worker.ranks.fork_server"), GOES_ON),
    Fault("head pod killed", kill_pod, RAY, silent=True, head=True),
    Fault("other pod killed", kill_pod, RAY, silent=True, head=False),
    Fault("GCS killed", kill(signal.SIGKILL, "gcs/gcs_server"), RAY, head=True),
    Fault("raylet killed", kill(signal.SIGKILL, "raylet/raylet"), RAY),
    Fault("Ray's actor killed", kill(signal.SIGKILL, "ray::PodActor"), GOES_ON),
    Fault("Ray's actor stopped", kill(signal.SIGSTOP, "ray::PodActor"), GOES_ON),
    Fault("a Ray process killed", kill(signal.SIGKILL, "ray::IDLE"), GOES_ON),
    Fault("stand-in for Ray's agent killed", kill(signal.SIGKILL, "idle_agent.py"), RAY),
    Fault("node process killed", kill(signal.SIGKILL, "cotenant_worker.ray_cluster.node_main"), RAY),
    Fault("other pod frozen", freeze, RAY, silent=True, head=False),
    Fault("head pod frozen", freeze, RAY, silent=True, head=True),
    Fault("other pod cut off", cut, RAY, head=False),
    Fault("network gone for 3 s", flap, RAY),
    Fault("checkpoint volume full", fill, GOES_ON | {"UserError"}, training=True),
    Fault("preempted", preempt, {"Preempted", "Completed"}),
    Fault("one pod drained", drain, {"Preempted", "Completed", "PeerLost", "RendezvousTimeout"}),
)
