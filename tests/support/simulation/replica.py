"""One replica of the operator: the production process, put together as `controller.main` does, restarted as Kubernetes
does. Only the client, kopf and the clocks are the simulation's.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any, cast
from unittest.mock import patch

from cotenant.controller import main
from cotenant.controller.client.fence import Fence
from cotenant.controller.client.kube import Resource
from cotenant.controller.client.rest import RestKube
from cotenant.controller.informers.feed import kopf_feed
from cotenant.controller.informers.feed.kopf_feed import EventSink
from cotenant.controller.leader.election import LeaderElector
from cotenant.controller.leader.leadership import Leadership
from cotenant.controller.leader.lease_thread import LeaseThread
from cotenant.controller.replica import Operator
from cotenant.controller.reports import progress_poller, start_estimates
from cotenant.controller.settings import Settings
from cotenant.controller.telemetry.metrics import Metrics
from cotenant.core.outlook.estimates import Outlook
from tests.support.simulation.api_client import ApiClient, Line
from tests.support.simulation.api_server import ApiServer
from tests.support.simulation.feed import Feed
from tests.support.simulation.virtual_loop import RUNNING, Process, context_of

FEEDS: dict[Process, Feed] = {}


class SimulatedLeaseThread(LeaseThread):
    """Holds the Lease in the one loop that there is."""

    async def run(self, on_change: Callable[[bool], None]) -> None:
        self._task = asyncio.ensure_future(self._hold_lease(on_change))
        await asyncio.shield(self._task)

    async def stop(self) -> None:
        if self._stop is not None:
            self._stop.set()
            await self._task


class Replica:
    def __init__(self, name: str, server: ApiServer, dice: Random, tell: Callable[[str], None]) -> None:
        self.name = name
        self.line = Line(dice, lambda text: tell(f"{self.process.name}: {text}"))
        self.feed = Feed(server, dice)
        self.clock_error_s = 0.0
        self.failures: list[str] = []
        """Why a process has ended by itself."""
        self.process = Process(name)
        self.operator: Operator | None = None
        self._server = server
        self._dice = dice
        self._tell = tell
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        """One process after another."""
        number = 0
        while True:
            number += 1
            self.process = Process(f"{self.name}{number}", clock_error_s=self.clock_error_s)
            self.feed = Feed(self._server, self._dice)
            self._tell(f"{self.process.name} starts")
            process = asyncio.get_running_loop().create_task(self._operate(), context=context_of(self.process))
            try:
                await asyncio.wait({process})
            finally:
                FEEDS.pop(self.process, None)  # also at the end of the world, which nothing else may hold
            if process.cancelled():
                self._tell(f"{self.process.name} was killed")
            elif (error := process.exception()) is not None:
                self.failures.append(f"{self.process.name} has ended: {error!r}")
            elif process.result() != 0:
                self.failures.append(f"{self.process.name} has ended with {process.result()}")
            self.process.kill()
            await asyncio.sleep(self._dice.uniform(0.5, 20.0))

    def stop(self) -> None:
        """SIGTERM."""
        self._stopped.set()

    def set_clock(self, error_s: float) -> None:
        self.clock_error_s = self.process.clock_error_s = error_s

    async def _operate(self) -> int:
        """Run the operator like `main.run`."""
        metrics, identity = Metrics(), self.process.name
        settings = Settings(identity=identity)
        FEEDS[self.process] = self.feed
        lease_kube = ApiClient(self.feed, self.process, self.line)
        elector = LeaderElector(
            lease_kube,
            namespace=settings.namespace,
            name=settings.lease_name,
            identity=identity,
            clock=time.monotonic,
        )
        leadership = Leadership(lambda: elector.is_leader)
        fence = Fence(lambda: leadership.held, clock=time.monotonic)
        kube = ApiClient(self.feed, self.process, self.line, before_write=fence.check)
        self._stopped = asyncio.Event()
        self.operator = Operator(kube, leadership, settings, metrics, clock=time.time)
        self.operator.loop.last_alive = time.monotonic()
        lease = SimulatedLeaseThread(cast(RestKube, lease_kube), elector)
        return await main._supervise(self.operator, lease, fence, self._stopped)


@contextlib.contextmanager
def simulated_surroundings() -> Iterator[None]:
    """Replaces kopf and HTTP to pods, for the process that asks."""

    async def feed(sink: EventSink, resources: Iterable[Resource]) -> None:
        process = RUNNING.get()
        assert process is not None
        await FEEDS[process].run(sink, resources)

    async def no_progress(*_: Any, **__: Any) -> None:
        await asyncio.sleep(0.01)

    def one_step(outlook: Outlook) -> tuple[float, bool]:
        """Replaces "as many steps as fit into some CPU time", whose number is chance."""
        return start_estimates.SLICE_S, outlook.step()

    with (
        patch.object(kopf_feed, "run", feed),
        patch.object(progress_poller, "get_progress", no_progress),
        patch.object(start_estimates, "_advance", one_step),
    ):
        yield
