"""PID 1 of a worker pod: reaps, forwards signals, starts Ray and the ranks, answers health and progress, owns the exit
code. Stdlib only, so that it is up in a tenth of a second; whatever needs ray or torch runs in a child.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cotenant import names
from cotenant.contract import Contract, Termination, needs_ray
from cotenant_worker import checkpoints, endpoint, layout
from cotenant_worker.board import Board
from cotenant_worker.channel import Channel, Message
from cotenant_worker.children import Nursery, kill_all
from cotenant_worker.conductor import Conductor
from cotenant_worker.environment import World, choose_collective, train_driver_environment
from cotenant_worker.limits import limits_of
from cotenant_worker.ranks import LocalRanks
from cotenant_worker.runtime import RayRuntime
from cotenant_worker.supervision import Finish
from cotenant_worker.verdicts import say, write_termination

if TYPE_CHECKING:
    from cotenant_worker.sinks import Sink

_BEAT_S = 0.5


@dataclass(slots=True)
class Launcher:
    contract: Contract
    env: Mapping[str, str]
    ip: str
    board: Board = field(default_factory=Board)
    nursery: Nursery = field(default_factory=Nursery)
    ranks: LocalRanks = field(init=False)
    ray: RayRuntime = field(init=False)
    verdict: asyncio.Future[Finish] = field(init=False)
    conductor: Conductor | None = None
    """Only where the world is one rank; else it runs in the driver."""
    began: float = field(default_factory=time.monotonic)
    preempted_at: float | None = None
    _relay: Channel | None = None
    """The actor: our way to the conductor."""
    _outbox: list[Message] = field(default_factory=list)
    _driver: Channel | None = None
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    _calls_at: tuple[float, int] = (0.0, 0)
    _own_sigterm: bool = False
    _sinks: list[Sink] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ranks = LocalRanks(self.contract, self.nursery, self.env, self._emit)
        self.ray = RayRuntime(self.contract, self.nursery, self.env, self.ip)
        self.verdict = asyncio.get_running_loop().create_future()

    @property
    def head(self) -> bool:
        return self.contract.node_rank == 0

    @property
    def solo(self) -> bool:
        """One rank needs neither peers nor Ray."""
        return not needs_ray(self.contract.mode, self.contract.world_size)

    def _spawn(self, coroutine: Any) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._end(names.EXIT_RAY_DIED, "RayDied", f"launcher: {type(error).__name__}: {error}")

    def _end(self, code: int, reason: str, message: str) -> None:
        if not self.verdict.done():
            self.verdict.set_result(Finish(code, reason, message))

    # -- life -------------------------------------------------------------------------------------------------

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        self.nursery.start()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._terminated)
        chosen, warning = choose_collective(self.contract)
        self.board.collective = chosen
        self.board.warn("collective", warning)
        self.board.warn("command", self.ranks.program.objection)
        self.ranks.warm_up()
        if not self.solo and self.contract.mode != "rayTrain":
            self._spawn(self._guard_ray())
        server = await asyncio.start_unix_server(self._serve, str(layout.socket_path()), limit=1 << 20)
        labels = {"job": self.contract.job, "namespace": self.contract.namespace}
        pages = await endpoint.serve(self.board, self.ip, labels)
        self.board.mark("launcher", time.monotonic() - self.began)
        self._spawn(self._begin())
        self._spawn(self._beat())
        if self.head and self.contract.platform.get("tracking"):
            from cotenant_worker import sinks

            self._sinks = sinks.sinks_of(self.contract)
            self._spawn(sinks.feed(self.board, self._sinks))
        finish = await self.verdict
        pages.close()
        server.close()
        return await self._leave(finish)

    async def _begin(self) -> None:
        limits, problems = await asyncio.to_thread(limits_of, self.contract)
        for key, text in problems:
            self.board.warn(key, text)
            say(text)
        if isinstance(limits, str):
            self._end(names.EXIT_QUOTA, "Quota", limits)
            return
        self.ranks.limits = limits
        if self.contract.mode == "rayTrain":
            self.ray.limits = min(limits.values(), key=lambda env: env.get("XLA_CLIENT_MEM_FRACTION", "1"), default={})
            self.ranks.train = train_driver_environment(self.contract, self.ray.environment(), self.ip)
            self._spawn(self._guard_ray())
        if self.solo:
            self.conductor = Conductor(self.contract, self)
            self._spawn(self._conduct(self.conductor))
        self._emit({"op": "ready", "ip": self.ip})

    async def _conduct(self, conductor: Conductor) -> None:
        finish = await conductor.run()
        if not self.verdict.done():
            self.verdict.set_result(finish)

    async def _guard_ray(self) -> None:
        """Start Ray (and the driver); when one of them ends before the verdict, the attempt is over."""
        self.board.state = "rendezvous"
        code, reason, message = await self.ray.run()
        if self.preempted_at is not None:
            return  # draining, or gone with its peers: `_enforce_grace` ends this pod
        # The verdict may be on its way: a peer that finished takes Ray with it.
        await asyncio.wait([self.verdict], timeout=2.0)
        self._end(code, reason, message)

    # -- messages ---------------------------------------------------------------------------------------------

    def _emit(self, event: Message) -> None:
        """To the conductor, wherever it is."""
        if self.conductor is not None:
            self._spawn(self.conductor.handle(0, event))
        elif self._relay is not None:
            self._relay.send(event)
        else:
            self._outbox.append(event)

    async def send(self, pod: int, message: Message) -> None:
        """`Pods` of a world of one: the only pod is this one."""
        await self._obey(message)

    def tell_head(self, message: Message) -> None:
        self._on_board(message)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        channel = Channel(reader, writer)
        role = ""
        async for message in channel:
            if message["op"] == "hello":
                role = message["role"]
                self._hello(role, channel)
            elif role == "rank":
                self._heard(message)
            elif role == "actor":
                await self._obey(message)
            elif role == "driver":
                self._on_board(message)
        if role == "actor" and self._relay is channel:
            self._relay = None
        channel.close()

    def _hello(self, role: str, channel: Channel) -> None:
        if role == "actor":
            self.board.mark("actor attached", time.monotonic() - self.began)
            self._relay = channel
            self.ray.joined = True
            for event in self._outbox:
                channel.send(event)
            self._outbox.clear()
        elif role == "driver":
            self.board.mark("driver connected", time.monotonic() - self.began)
            self._driver = channel

    def _heard(self, message: Message) -> None:
        """A rank of this pod speaks: our own board first, and the head's."""
        if message["op"] == "beat":
            self._emit({"op": "beats", "beats": [message["beat"]]})
            return
        if message["op"] == "mark":
            self.board.mark(message["what"], time.monotonic() - self.began)
            return
        message["now"] = time.time()
        self.board.take(message, message["now"])
        if not self.head:
            self._emit({"op": "reports", "items": [message]})

    def _on_board(self, message: Message) -> None:
        """From the conductor, for rank 0's pod."""
        match message["op"]:
            case "reports":
                for item in message["items"]:
                    self.board.take(item, item["now"])
            case "warning":
                self.board.warn(message["key"], message["text"])
                if message["text"]:
                    say(message["text"])
            case "restarted":
                say(f"starting the ranks again (start {message['generation'] + 1}): {message['why']}")
                self.board.warn("restart", f"restarted {message['generation']}×, last: {message['why']}")

    # -- commands ---------------------------------------------------------------------------------------------

    async def _obey(self, message: Message) -> None:
        match message["op"]:
            case "start":
                world = World.from_dict(message["world"])
                if self.preempted_at is None:
                    layout.preempt_file().unlink(missing_ok=True)  # of the world that ended to change its size
                self.board.began(world.generation)
                self.board.mark("world complete", time.monotonic() - self.began)
                if world.resume_step is not None:
                    self.board.saved_step = world.resume_step
                self._spawn(self._start_ranks(world))
            case "stop":
                await self.ranks.stop(message["generation"])
            case "resize":
                self._ask_ranks_to_stop("resize")
            case "preempt":
                self._preempt()
            case "stop-at":
                self.ranks.stop_at(message["count"])
            case "finish":
                if not self.verdict.done():
                    self.verdict.set_result(Finish(**message["verdict"]))

    async def _start_ranks(self, world: World) -> None:
        """Beside the stream of commands: a start may wait for imports, a stop may not wait for a start."""
        await self.ranks.start(world)
        self.board.mark("ranks started", time.monotonic() - self.began)

    def _terminated(self) -> None:
        """SIGTERM from the kubelet."""
        if self._own_sigterm:
            return
        self._own_sigterm = True
        say(f"asked to stop: {self.contract.grace_s} s to save and leave")
        self._emit({"op": "preempt"})
        self._preempt()

    def _preempt(self) -> None:
        if self.preempted_at is not None:
            return
        self.preempted_at = time.monotonic()
        self.board.state = "saving"
        self._ask_ranks_to_stop("preempt")
        self._spawn(self._enforce_grace())

    def _ask_ranks_to_stop(self, why: str) -> None:
        left = self._grace_left()
        document = {"reason": why, "deadline": time.time() + left, "seconds": left}
        aside = layout.preempt_file().with_suffix(".tmp")
        aside.write_text(json.dumps(document))
        aside.rename(layout.preempt_file())
        if self.contract.mode == "rayTrain":
            return  # Ray Train tells its workers itself, once Ray drains
        at, before = self._calls_at
        calls = self.ranks.ask_to_stop()
        now = time.monotonic()
        rate = max(0.0, (max(calls.values(), default=0) - before) / (now - at)) if at else 0.0
        self._emit({"op": "calls", "calls": calls, "rate": rate})

    def _grace_left(self) -> float:
        """Seconds that ranks have: five are kept for ourselves, less where the grace period is short."""
        return max(1.0, self.contract.grace_s - min(5.0, self.contract.grace_s / 4))

    async def _enforce_grace(self) -> None:
        """Leave when our ranks have left, or when their time is over; never later than the kubelet's patience."""
        if self.contract.mode == "rayTrain":
            await self.ray.drain(self._grace_left())
        else:
            await self.ranks.all_gone(self._grace_left())
        late = sorted(self.ranks.running)
        await self.ranks.stop(1 << 30)
        if late:
            self.board.warn("grace", f"ranks {late} were still running at the end of the grace period and were killed")
        await asyncio.wait([self.verdict], timeout=0.3 if self._own_sigterm else 5.0)
        self._end(names.EXIT_PREEMPTED, "Preempted", "asked to stop")

    async def _beat(self) -> None:
        """Once in a while: what the cells say, for hang detection and for agreeing on a last step."""
        while True:
            await asyncio.sleep(_BEAT_S)
            calls = [run.cell.get("calls") for run in self.ranks.running.values()]
            if calls:
                self._calls_at = (time.monotonic(), max(calls))

    def _close_sinks(self, succeeded: bool) -> None:
        """The last step, then the end of the run."""
        from cotenant_worker import sinks

        sinks.write_once(self.board, self._sinks, -1)
        for sink in self._sinks:
            with contextlib.suppress(OSError, ValueError, KeyError):
                sink.close(succeeded)

    # -- the end ----------------------------------------------------------------------------------------------

    async def _leave(self, finish: Finish) -> int:
        await self.ranks.stop(1 << 30)
        if self.head and not self.solo:
            # The driver still tells the others; it is done when it closes its end.
            await self.ray.driver_done(3.0)
        for task in self._tasks:
            task.cancel()
        self.ranks.retire_warm()
        await kill_all()
        code = names.EXIT_PREEMPTED if self.preempted_at is not None else finish.code
        reason = "Preempted" if self.preempted_at is not None else finish.reason
        self.board.state = "done"
        if self._sinks:
            await asyncio.to_thread(self._close_sinks, code == 0)
        saved = checkpoints.newest(self.contract.checkpoint)
        told = self.board.progress()
        termination = Termination(
            node_rank=self.contract.node_rank,
            attempt=self.contract.attempt,
            code=code,
            reason=reason,
            message=finish.message,
            rank=finish.rank,
            signal=finish.signal,
            results=self.board.results() if self.head else {},
            step=told.step if self.head else 0,
            of=told.of if self.head else 0,
            last_checkpoint_step=saved.step if saved else self.board.saved_step,
            tail=tuple(finish.tail),
        )
        write_termination(termination, self.env)
        say(f"{reason} ({code}): {finish.message}")
        return code
