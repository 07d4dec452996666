"""The driver: joins the job's Ray cluster in rank 0's pod, makes one actor per pod, and conducts.

In the process that holds the head node (`raystart`), or in mode `rayTrain` in one of its own: `python -m
cotenant_worker.ray_cluster.driver`. Exit code 0 once every pod has its verdict; anything else tells the launcher that
Ray failed.
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
from cotenant_worker.messaging.json_lines import Channel, Message
from cotenant_worker.ray_cluster.pod_actor import PodActor
from cotenant_worker.supervision.conductor import Conductor
from cotenant_worker.supervision.failure_cause import why_lost

REATTACH_S = 60.0
"""How long a pod whose node lives may be without its actor: a busy machine starts Ray's next worker slowly."""
SILENT_S = 60.0
"""An actor answers every five seconds; one that has not for this long is frozen, with its pod or alone."""
ANSWER_S = 30.0
"""For an actor's first word, once the pod's node is there: Ray has to start a process for it."""
COMMAND_S = 10.0
TOLD_S = 15.0
"""How long the driver stays for pods that have no actor when the verdict falls."""
_LOOK_S = 0.5
_JOIN_LOOK_S = 5.0
"""Longer than a start takes: asking Ray costs CPU that the start needs."""


class RayPods:
    """`Pods` over one Ray actor per pod, which only carries words: ranks do not notice when another takes its place.

    While a pod has no actor its commands wait, in order. One that the last actor took without confirming it is said
    again; launchers carry it out once.
    """

    def __init__(self, head: Channel) -> None:
        self._head = head
        self._actors: dict[int, Any] = {}
        self._waiting: dict[int, list[Message]] = {}

    def make(self, pod: int) -> Any:
        remote: Any = ray.remote(PodActor)
        actor = remote.options(num_cpus=0, resources={f"w{pod}": 1}, max_restarts=0, max_concurrency=16).remote()
        self._actors[pod] = actor
        return actor

    async def send(self, pod: int, message: Message) -> None:
        if pod in self._waiting:
            self._waiting[pod].append(message)
            return
        try:
            await self._command(pod, message)
        except (RayError, TimeoutError):
            self._waiting.setdefault(pod, []).append(message)

    async def _command(self, pod: int, message: Message) -> None:
        actor = self._actors[pod]
        try:
            await asyncio.wait_for(actor.command.remote(message), COMMAND_S)
        except TimeoutError:
            ray.kill(actor)  # deaf: the next one will be told
            raise

    async def events(self, pod: int) -> list[Message]:
        """The next ones, or none after some seconds. TimeoutError when the actor does not answer."""
        try:
            found: list[Message] = await asyncio.wait_for(self._actors[pod].events.remote(), SILENT_S)
        except TimeoutError:
            raise TimeoutError(f"its actor has not answered for {SILENT_S:.0f} s") from None
        return found

    def hold(self, pod: int) -> None:
        """Its actor is dead or deaf: keep what is said until there is another."""
        ray.kill(self._actors[pod])  # a frozen one would hold the pod's resource
        self._waiting.setdefault(pod, [])

    async def catch_up(self, pod: int) -> None:
        waiting = self._waiting.get(pod, [])
        while waiting:
            await self._command(pod, waiting[0])
            waiting.pop(0)
        self.forget(pod)

    def forget(self, pod: int) -> None:
        self._waiting.pop(pod, None)

    def told(self, pod: int) -> bool:
        return not self._waiting.get(pod)

    def tell_head(self, message: Message) -> None:
        self._head.send(message)


async def follow(pod: int, pods: RayPods, conductor: Conductor) -> None:
    """One pod's events, for ever. A pod is lost with its launcher or its node; its actor alone is replaced."""
    launcher = why = ""
    while not (conductor.verdict.done() and pods.told(pod)):
        attached = asyncio.ensure_future(pods.make(pod).attach.remote())  # pending until a node with `w<pod>` joins
        try:
            if launcher and not await _replaced(attached, pod):
                await _lost(pod, why, pods, conductor)
                launcher = ""
            found = await _answer(attached, pod)
            if launcher and found != launcher:  # another pod has taken its place meanwhile
                await _lost(pod, why, pods, conductor)
            launcher = found
            await pods.catch_up(pod)
            await _listen(pod, pods, conductor)
        except (RayError, TimeoutError) as error:
            why = why_lost(str(error))
            pods.hold(pod)


async def _listen(pod: int, pods: RayPods, conductor: Conductor) -> None:
    while not conductor.verdict.done():
        events = await pods.events(pod)
        conductor.heard(pod)
        for event in events:
            await conductor.handle(pod, event)


async def _lost(pod: int, why: str, pods: RayPods, conductor: Conductor) -> None:
    pods.forget(pod)
    await conductor.handle(pod, {"op": "lost", "why": why})


async def _answer(attached: asyncio.Future[str], pod: int) -> str:
    """Which launcher the actor belongs to. Its node may come late; one that is deaf from then on is frozen."""
    joined = float("inf")
    while not (await asyncio.wait([attached], timeout=_JOIN_LOOK_S))[0]:
        now = time.monotonic()
        if await asyncio.to_thread(_has_node, pod):
            joined = min(joined, now)
        if now - joined >= ANSWER_S:
            attached.cancel()
            raise TimeoutError(f"its actor has not answered for {ANSWER_S:.0f} s")
    return attached.result()


async def _replaced(attached: asyncio.Future[str], pod: int) -> bool:
    """A pod that had an actor has one again; false once its node is dead, or after much too long."""
    end = time.monotonic() + REATTACH_S
    while time.monotonic() < end and await asyncio.to_thread(_has_node, pod):
        if (await asyncio.wait([attached], timeout=_LOOK_S))[0]:
            return True
    return attached.done()


def _has_node(pod: int) -> bool:
    """By Ray's word; what it cannot say now counts as alive."""
    try:
        return any(node["Alive"] and f"w{pod}" in node["Resources"] for node in ray.nodes())
    except RayError:
        return True


async def conduct(contract: Contract, gone: Callable[[], str]) -> None:
    channel = await Channel.connect(layout.socket_path(), 10.0)
    channel.send({"op": "hello", "role": "driver"})
    conductor = Conductor(contract, RayPods(channel))
    assert isinstance(conductor.pods, RayPods)
    feeds = [asyncio.create_task(follow(pod, conductor.pods, conductor)) for pod in range(len(contract.pods))]
    others = [asyncio.create_task(_orders(channel, conductor)), asyncio.create_task(_watch(gone))]
    verdict = await conductor.run()
    channel.send({"op": "finish", "verdict": {"code": verdict.code}})
    late = [feed for pod, feed in enumerate(feeds) if not conductor.pods.told(pod)]
    await asyncio.wait(late or feeds, timeout=TOLD_S if late else 1.0)
    for task in others:
        task.cancel()


async def _watch(gone: Callable[[], str]) -> None:
    """A node that has lost one of its processes is no node any more."""
    while not (why := gone()):  # noqa: ASYNC110 - Ray's processes can only be asked
        await asyncio.sleep(0.2)
    print(f"cotenant: {why}", flush=True)  # noqa: T201 - read by the launcher
    os._exit(1)


async def _orders(channel: Channel, conductor: Conductor) -> None:
    """What the launcher of our own pod tells us directly, before its actor is there."""
    async for message in channel:
        await conductor.handle(0, message)


def main(gone: Callable[[], str] = lambda: "") -> None:
    """Conduct until there is a verdict. `gone` says which process of the node has ended, once one has."""
    contract = Contract.from_environment(os.environ)
    # Ray may wait here for ever, in a call that holds the interpreter: for a first worker that died while it started.
    faulthandler.dump_traceback_later(contract.rendezvous_timeout_s, exit=True)
    ray.init(
        address=f"{os.environ[names.ENV_POD_IP]}:{layout.RAY_PORT}",
        log_to_driver=False,
        configure_logging=False,
        _node_ip_address=os.environ[names.ENV_POD_IP],
    )
    faulthandler.cancel_dump_traceback_later()
    asyncio.run(conduct(contract, gone))
    sys.stdout.flush()
    os._exit(0)  # the pods have their verdict; Ray's own shutdown has nothing to add and takes a second


if __name__ == "__main__":
    main()
