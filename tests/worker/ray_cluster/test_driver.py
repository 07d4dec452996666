"""The driver and a pod whose actor dies: replaced while the pod lives, lost with it. Actors are played; no Ray."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray.exceptions import RayActorError

from cotenant_worker.ray_cluster import driver
from cotenant_worker.ray_cluster.processes import failure_line
from cotenant_worker.supervision.commands import KillRanks, Resize
from cotenant_worker.supervision.messages import PodLost, PodReady, Preempt
from tests.support.pod_sandbox import contract


class Remote:
    """A method of an actor: `await method.remote(…)`."""

    def __init__(self, call: Any) -> None:
        self._call = call

    async def remote(self, *args: Any) -> Any:
        return await self._call(*args)


class Actor:
    """Belongs to a launcher; dies after its events."""

    def __init__(self, launcher: str, *events: PodReady, lives: bool = False, deaf: bool = False) -> None:
        self.sent: list[Any] = []
        self._deaf = deaf
        self._events = list(events)
        self._launcher, self._lives = launcher, lives
        self.attach, self.events, self.command = Remote(self._attach), Remote(self._next), Remote(self._command)

    async def _attach(self) -> str:
        if self._deaf:
            await asyncio.sleep(3600)
        return self._launcher

    async def _next(self) -> list[PodReady]:
        if self._events:
            return [self._events.pop(0)]
        if self._lives:
            await asyncio.sleep(3600)
        raise RayActorError

    async def _command(self, message: Any) -> None:
        if not self._lives:
            raise RayActorError
        self.sent.append(message)


class Heard(SimpleNamespace):
    """A conductor that only listens."""

    def __init__(self) -> None:
        super().__init__(
            verdict=asyncio.get_running_loop().create_future(),
            events=[],
            watchdog=SimpleNamespace(record_contact=lambda _pod: None),
        )

    async def handle(self, pod: int, event: Any) -> None:
        self.events.append((pod, type(event)))


async def followed(monkeypatch: pytest.MonkeyPatch, actors: list[Actor], *, node: bool) -> tuple[Any, Any]:
    """The conductor and the pods, once the last actor listens."""
    monkeypatch.setattr(driver, "_node_alive", lambda _pod: node)
    monkeypatch.setattr(ray, "kill", lambda _actor: None)
    pods: Any = driver.RayPods(None)  # type: ignore[arg-type]
    waiting = list(actors)

    def make(pod: int) -> Actor:
        pods._actors[pod] = waiting.pop(0)
        return pods._actors[pod]  # type: ignore[no-any-return]

    monkeypatch.setattr(pods, "create_actor", make)
    heard: Any = Heard()
    task = asyncio.create_task(driver.follow_pod(1, pods, heard))
    async with asyncio.timeout(20):
        while waiting or not pods.all_delivered(1) or not actors[-1]._lives:  # noqa: ASYNC110 - actors are only played
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
    task.cancel()
    return heard, pods


READY = PodReady("10.0.0.2")


async def test_an_actor_that_dies_while_its_pod_lives_is_replaced_and_nothing_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard, _ = await followed(monkeypatch, [Actor("a", READY), Actor("a", lives=True)], node=True)
    assert heard.events == [(1, PodReady)]


async def test_an_actor_that_never_says_a_word_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "ATTACH_TIMEOUT_S", 0.0)
    monkeypatch.setattr(driver, "_JOIN_POLL_S", 0.01)
    heard, _ = await followed(monkeypatch, [Actor("a", deaf=True), Actor("a", READY, lives=True)], node=True)
    assert heard.events == [(1, PodReady)]


async def test_a_pod_whose_node_died_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    heard, _ = await followed(monkeypatch, [Actor("a", READY), Actor("b", READY, lives=True)], node=False)
    assert heard.events == [(1, PodReady), (1, PodLost), (1, PodReady)]


async def test_another_launcher_behind_the_same_resource_is_another_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    heard, _ = await followed(monkeypatch, [Actor("a", READY), Actor("b", READY, lives=True)], node=True)
    assert heard.events == [(1, PodReady), (1, PodLost), (1, PodReady)]


async def test_commands_wait_in_order_for_the_next_actor(monkeypatch: pytest.MonkeyPatch) -> None:
    dying, next_one = Actor("a"), Actor("a", lives=True)
    pods: Any = driver.RayPods(None)  # type: ignore[arg-type]
    pods._actors[1] = dying
    await pods.send(1, KillRanks(0))
    pods._actors[1] = next_one
    await pods.send(1, Resize())
    assert (next_one.sent, pods.all_delivered(1)) == ([], False)
    await pods.deliver_held(1)
    await pods.send(1, Preempt())
    assert next_one.sent == [KillRanks(0), Resize(), Preempt()]
    assert pods.all_delivered(1)


WAITS_FOR_EVER = """
import ctypes, ray
ray.init = lambda **options: ctypes.PyDLL(None).sleep(600)  # with the interpreter held, as Ray does
from cotenant_worker.ray_cluster import driver
driver.main()
"""


def test_a_ray_that_never_answers_its_driver_ends_it_when_the_jobs_patience_ends() -> None:
    job = replace(contract([1, 1], command=("x",)), rendezvous_timeout_s=1)
    env = {**os.environ, "COTENANT_CONTRACT": job.to_json(), "POD_IP": "127.0.0.1"}
    command = [sys.executable, "-P", "-c", WAITS_FOR_EVER]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 1, done.stderr
    assert failure_line(done.stderr.splitlines()) == "Ray did not answer its driver in time: 0:00:01"
