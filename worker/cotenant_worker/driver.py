"""The driver: joins the job's Ray cluster in rank 0's pod, makes one actor per pod, and conducts.

In the process that holds the head node (`raystart`), or in mode `rayTrain` in one of its own: `python -m
cotenant_worker.driver`. Exit code 0 once every pod has its verdict; anything else tells the launcher that Ray failed.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Any

import ray
from ray.exceptions import RayError

from cotenant import names
from cotenant.contract import Contract
from cotenant_worker import layout
from cotenant_worker.actor import PodActor
from cotenant_worker.causes import why_lost
from cotenant_worker.channel import Channel, Message
from cotenant_worker.conductor import Conductor


class RayPods:
    """`Pods` over one Ray actor per pod."""

    def __init__(self, head: Channel) -> None:
        self._head = head
        self._actors: dict[int, Any] = {}

    def make(self, pod: int) -> Any:
        remote: Any = ray.remote(PodActor)
        actor = remote.options(num_cpus=0, resources={f"w{pod}": 1}, max_restarts=0, max_concurrency=16).remote()
        self._actors[pod] = actor
        return actor

    async def send(self, pod: int, message: Message) -> None:
        await asyncio.wait_for(self._actors[pod].command.remote(message), 10.0)

    def tell_head(self, message: Message) -> None:
        self._head.send(message)


async def follow(pod: int, pods: RayPods, conductor: Conductor) -> None:
    """One pod's events, for ever: when its actor dies the pod is lost, and a new one is waited for."""
    while not conductor.verdict.done():
        actor = pods.make(pod)  # pending until the node with `w<pod>` has joined
        try:
            await actor.attach.remote()
            while not conductor.verdict.done():
                for event in await actor.events.remote():
                    await conductor.handle(pod, event)
        except RayError as error:
            await conductor.handle(pod, {"op": "lost", "why": why_lost(str(error))})


async def conduct(contract: Contract, gone: Callable[[], str]) -> None:
    channel = await Channel.connect(layout.socket_path(), 10.0)
    channel.send({"op": "hello", "role": "driver"})
    conductor = Conductor(contract, RayPods(channel))
    assert isinstance(conductor.pods, RayPods)
    feeds = [asyncio.create_task(follow(pod, conductor.pods, conductor)) for pod in range(len(contract.pods))]
    others = [asyncio.create_task(_orders(channel, conductor)), asyncio.create_task(_watch(gone))]
    verdict = await conductor.run()
    channel.send({"op": "finish", "verdict": {"code": verdict.code}})
    await asyncio.wait(feeds, timeout=1.0)
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
    contract = Contract.from_json(os.environ[names.ENV_CONTRACT])
    ray.init(
        address=f"{os.environ[names.ENV_POD_IP]}:{layout.RAY_PORT}",
        log_to_driver=False,
        configure_logging=False,
        _node_ip_address=os.environ[names.ENV_POD_IP],
    )
    asyncio.run(conduct(contract, gone))
    sys.stdout.flush()
    os._exit(0)  # the pods have their verdict; Ray's own shutdown has nothing to add and takes a second


if __name__ == "__main__":
    main()
