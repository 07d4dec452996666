"""The driver: joins the job's Ray cluster in rank 0's pod, makes one actor per pod, and runs the `Conductor`.

It runs in the process that holds the head node (`node_main`), or in mode `rayTrain` in one of its own: `python -m
cotenant_worker.ray_cluster.driver`. Exit code 0 once every pod has its verdict; any other code means that Ray failed.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import ray
from ray.exceptions import RayError

from cotenant import names
from cotenant.contract import Contract
from cotenant_worker.host import layout
from cotenant_worker.host.addresses import at
from cotenant_worker.messaging.json_lines import Channel
from cotenant_worker.ray_cluster.pod_actor import PodActor
from cotenant_worker.supervision.conductor import Conductor
from cotenant_worker.supervision.failure_cause import ray_loss_reason
from cotenant_worker.supervision.messages import MESSAGES, HeadMessage, Hello, Message, PodCommand, PodEvent, PodLost

REATTACH_TIMEOUT_S = 60.0
"""Time for the next actor of a pod whose node lives. On a busy machine Ray starts a worker slowly."""
EVENTS_TIMEOUT_S = 60.0
"""An actor answers every five seconds. One that is silent for this long is frozen, alone or with its pod."""
ATTACH_TIMEOUT_S = 30.0
"""Time for an actor's first answer after the pod's node has joined: Ray has to start a process for it."""
COMMAND_TIMEOUT_S = 10.0
DELIVER_VERDICT_S = 15.0
"""The driver waits this long for pods that have no actor when the verdict falls."""
_NODE_POLL_S = 0.5
_JOIN_POLL_S = 5.0
"""Longer than a start takes, because asking Ray costs CPU that the start needs."""


class RayPods:
    """`Pods` over one Ray actor per pod. An actor only relays, so ranks do not notice when it is replaced.

    While a pod has no actor, its commands wait in order. A command that the last actor took without confirming it is
    sent again; launchers execute it once.
    """

    def __init__(self, head: Channel[Message]) -> None:
        self._head = head
        self._actors: dict[int, Any] = {}
        self._undelivered: dict[int, list[PodCommand]] = {}

    def create_actor(self, pod: int) -> Any:
        remote: Any = ray.remote(PodActor)
        actor = remote.options(num_cpus=0, resources={f"w{pod}": 1}, max_restarts=0, max_concurrency=16).remote()
        self._actors[pod] = actor
        return actor

    async def send(self, pod: int, message: PodCommand) -> None:
        if pod in self._undelivered:
            self._undelivered[pod].append(message)
            return
        try:
            await self._command(pod, message)
        except (RayError, TimeoutError):
            self._undelivered.setdefault(pod, []).append(message)

    async def _command(self, pod: int, message: PodCommand) -> None:
        actor = self._actors[pod]
        try:
            await asyncio.wait_for(actor.command.remote(message), COMMAND_TIMEOUT_S)
        except TimeoutError:
            ray.kill(actor)  # it does not answer: the next one gets the command
            raise

    async def events(self, pod: int) -> list[PodEvent]:
        """The next events, or none after some seconds. Raises TimeoutError if the actor does not answer."""
        try:
            found: list[PodEvent] = await asyncio.wait_for(self._actors[pod].events.remote(), EVENTS_TIMEOUT_S)
        except TimeoutError:
            raise TimeoutError(f"its actor has not answered for {EVENTS_TIMEOUT_S:.0f} s") from None
        return found

    def hold_commands(self, pod: int) -> None:
        """Keep commands until there is another actor: this one is dead or does not answer."""
        ray.kill(self._actors[pod])  # a frozen one would hold the pod's resource
        self._undelivered.setdefault(pod, [])

    async def deliver_held(self, pod: int) -> None:
        waiting = self._undelivered.get(pod, [])
        while waiting:
            await self._command(pod, waiting[0])
            waiting.pop(0)
        self.drop_held(pod)

    def drop_held(self, pod: int) -> None:
        self._undelivered.pop(pod, None)

    def all_delivered(self, pod: int) -> bool:
        return not self._undelivered.get(pod)

    def send_to_head(self, message: HeadMessage) -> None:
        self._head.send(message)


async def follow_pod(pod: int, pods: RayPods, conductor: Conductor) -> None:
    """Pass one pod's events to the conductor. A pod is lost with its launcher or its node; an actor is replaced."""
    launcher = why = ""
    while not (conductor.verdict.done() and pods.all_delivered(pod)):
        attached = asyncio.ensure_future(
            pods.create_actor(pod).attach.remote()
        )  # pending until a node with `w<pod>` joins
        try:
            if launcher and not await _await_replacement(attached, pod):
                await _report_lost(pod, why, pods, conductor)
                launcher = ""
            found = await _await_attachment(attached, pod)
            if launcher and found != launcher:  # another pod has taken its place meanwhile
                await _report_lost(pod, why, pods, conductor)
            launcher = found
            await pods.deliver_held(pod)
            await _forward_events(pod, pods, conductor)
        except (RayError, TimeoutError) as error:
            why = ray_loss_reason(str(error))
            pods.hold_commands(pod)


async def _forward_events(pod: int, pods: RayPods, conductor: Conductor) -> None:
    while not conductor.verdict.done():
        events = await pods.events(pod)
        conductor.watchdog.record_contact(pod)
        for event in events:
            await conductor.handle(pod, event)


async def _report_lost(pod: int, why: str, pods: RayPods, conductor: Conductor) -> None:
    pods.drop_held(pod)
    await conductor.handle(pod, PodLost(why))


async def _await_attachment(attached: asyncio.Future[str], pod: int) -> str:
    """Which launcher the actor belongs to. Its node may join late. An actor that is silent after that is frozen."""
    joined = float("inf")
    while not (await asyncio.wait([attached], timeout=_JOIN_POLL_S))[0]:
        now = time.monotonic()
        if await asyncio.to_thread(_node_alive, pod):
            joined = min(joined, now)
        if now - joined >= ATTACH_TIMEOUT_S:
            attached.cancel()
            raise TimeoutError(f"its actor has not answered for {ATTACH_TIMEOUT_S:.0f} s")
    return attached.result()


async def _await_replacement(attached: asyncio.Future[str], pod: int) -> bool:
    """True when a pod has an actor again; false once its node is dead, or after far too long."""
    end = time.monotonic() + REATTACH_TIMEOUT_S
    while time.monotonic() < end and await asyncio.to_thread(_node_alive, pod):
        if (await asyncio.wait([attached], timeout=_NODE_POLL_S))[0]:
            return True
    return attached.done()


def _node_alive(pod: int) -> bool:
    """True if Ray lists the pod's node as alive, or does not answer now."""
    try:
        return any(node["Alive"] and f"w{pod}" in node["Resources"] for node in ray.nodes())
    except RayError:
        return True


async def conduct(contract: Contract, dead_process: Callable[[], str]) -> None:
    """Run the conductor until every pod has the verdict, or has had time to get an actor for it."""
    channel = await Channel.connect(layout.socket_path(), MESSAGES, 10.0)
    channel.send(Hello("driver"))
    pods = RayPods(channel)
    conductor = Conductor(contract, pods)
    feeds = [asyncio.create_task(follow_pod(pod, pods, conductor)) for pod in range(len(contract.pods))]
    node_watch = asyncio.create_task(_exit_with_node(dead_process))
    await conductor.run()
    late = [feed for pod, feed in enumerate(feeds) if not pods.all_delivered(pod)]
    await asyncio.wait(late or feeds, timeout=DELIVER_VERDICT_S if late else 1.0)
    node_watch.cancel()


async def _exit_with_node(dead_process: Callable[[], str]) -> None:
    """End this process when the first process of the node ends."""
    while not (why := dead_process()):  # noqa: ASYNC110 - Ray's processes can only be asked
        await asyncio.sleep(0.2)
    print(f"cotenant: {why}", flush=True)  # noqa: T201 - read by the launcher
    os._exit(1)


def main(dead_process: Callable[[], str] = lambda: "") -> None:
    """Run the conductor until there is a verdict. `dead_process` names a process of the node that has ended."""
    contract = Contract.from_environment(os.environ)
    # Ray may wait here without end, in a call that holds the interpreter: for a first worker that died in its start.
    faulthandler.dump_traceback_later(contract.rendezvous_timeout_s, exit=True)
    ray.init(
        address=at(os.environ[names.ENV_POD_IP], layout.RAY_PORT),
        log_to_driver=False,
        configure_logging=False,
        _node_ip_address=os.environ[names.ENV_POD_IP],
    )
    faulthandler.cancel_dump_traceback_later()
    asyncio.run(conduct(contract, dead_process))
    sys.stdout.flush()
    os._exit(0)  # the pods have their verdict; Ray's own shutdown has nothing to add and takes a second


if __name__ == "__main__":
    main()
