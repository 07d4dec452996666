"""Event loop on a virtual clock: time passes only while nothing is ready, and what is ready at once runs in an order
that is drawn from a seed.

Every task belongs to the simulated process whose context it was made in. A process may be killed between any two
steps, or stand still for a while (a paused virtual machine) and go on as if nothing had been.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import time
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any, Final, TypeVar, cast
from unittest.mock import patch

T = TypeVar("T")
EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
"""Unix seconds at virtual time 0."""


@dataclass(eq=False, slots=True)
class Process:
    """One operating system process."""

    name: str
    clock_error_s: float = 0.0
    """Of its wall clock; its monotonic clock is right."""
    paused_until: float = 0.0
    killed: bool = False
    tasks: list[asyncio.Task[Any]] = field(default_factory=list)

    def kill(self) -> None:
        self.killed = True
        for task in self.tasks:
            task.cancel()

    def own(self, task: asyncio.Task[Any]) -> None:
        self.tasks = [one for one in self.tasks if not one.done()]
        self.tasks.append(task)


RUNNING: ContextVar[Process | None] = ContextVar("RUNNING", default=None)
"""The simulated process that a step belongs to; None: the world around them."""


def context_of(process: Process | None) -> Context:
    context = copy_context()
    context.run(RUNNING.set, process)
    return context


class VirtualLoop:
    """The part of `asyncio.AbstractEventLoop` that tasks, futures and timers need."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._now = 0.0
        self._self = cast(asyncio.AbstractEventLoop, self)
        self._ready: list[tuple[Process | None, asyncio.Handle]] = []
        self._timers: list[tuple[float, float, int, Process | None, asyncio.TimerHandle]] = []
        self._count = itertools.count()
        self._failure: BaseException | None = None

    def time(self) -> float:
        return self._now

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> asyncio.Handle:
        context = context or copy_context()
        handle = asyncio.Handle(callback, args, self._self, context)
        self._ready.append((context.get(RUNNING), handle))
        return handle

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Context | None = None) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> asyncio.TimerHandle:
        context = context or copy_context()
        handle = asyncio.TimerHandle(when, callback, args, self._self, context)
        self._push(when, context.get(RUNNING), handle)
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self._self)

    def create_task(
        self, coro: Any, *, name: str | None = None, context: Context | None = None, **_: Any
    ) -> asyncio.Task[Any]:
        context = context or copy_context()
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self._self, name=name, context=context)
        if (process := context.get(RUNNING)) is not None:
            process.own(task)
        return task

    def run_in_executor(self, executor: object, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        """Replaces a thread: the function runs in one step, some time from now, and its result comes some time
        later."""
        done: asyncio.Future[T] = self.create_future()

        def work() -> None:
            try:
                result = func(*args)
            except BaseException as error:
                settle, value = done.set_exception, error
            else:
                settle, value = done.set_result, result  # type: ignore[assignment]
            self.call_later(self._dice.expovariate(100.0), lambda: None if done.done() else settle(value))

        self.call_later(self._dice.expovariate(100.0), work)
        return done

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep an error of a callback, which would be lost otherwise. The error of a task goes to the code that awaits
        it.
        """
        if str(context.get("message")).startswith("Exception in callback"):
            self.fail(context["exception"])

    def fail(self, error: BaseException) -> None:
        """Have `run` end with this error, after the step that it was found in."""
        self._failure = self._failure or error

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is passed over when its time has come."""

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run until `main` ends or something fails, which is raised."""
        asyncio._set_running_loop(self._self)
        try:
            with self._clocks():
                task: asyncio.Task[T] = self.create_task(main)
                while not task.done() and self._failure is None:
                    self._step()
                if self._failure is not None:
                    task.cancel()
                while not task.done():
                    self._step()
                if self._failure is not None:
                    raise self._failure
                return task.result()
        finally:
            asyncio._set_running_loop(None)

    @contextlib.contextmanager
    def _clocks(self) -> Iterator[None]:
        """The clocks of the standard library are those of the process that asks."""

        def wall() -> float:
            process = RUNNING.get()
            return EPOCH + self._now + (process.clock_error_s if process else 0.0)

        with patch.object(time, "time", wall), patch.object(time, "monotonic", self.time):
            yield

    def _push(self, when: float, process: Process | None, handle: asyncio.TimerHandle) -> None:
        heapq.heappush(self._timers, (when, self._dice.random(), next(self._count), process, handle))

    def _step(self) -> None:
        if not self._ready:
            if not self._timers:
                raise RuntimeError("nothing will ever happen again")
            self._now = max(self._now, self._timers[0][0])
        while self._timers and self._timers[0][0] <= self._now:
            *_, process, handle = heapq.heappop(self._timers)
            if not handle.cancelled():
                self._ready.append((process, handle))
        batch, self._ready = self._ready, []
        self._dice.shuffle(batch)
        for process, one in batch:
            if one.cancelled():
                continue
            if process is not None and process.paused_until > self._now and not process.killed:
                self._resume_later(process, one)
            else:
                one._run()

    def _resume_later(self, process: Process, handle: asyncio.Handle) -> None:
        def go_on() -> None:
            if not handle.cancelled():
                self._ready.append((process, handle))

        self.call_at(process.paused_until, go_on, context=context_of(None))
