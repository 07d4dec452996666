"""PID 1 of a worker pod: reaps, forwards signals, starts Ray and the ranks, answers health and progress, owns the exit
code. Stdlib only, so that it is up in a tenth of a second; whatever needs ray or torch runs in a child.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from cotenant import names
from cotenant.contract import Contract, needs_ray
from cotenant_worker.host import layout
from cotenant_worker.host.background_tasks import BackgroundTasks
from cotenant_worker.host.processes import ChildWatcher, kill_descendants
from cotenant_worker.parameter_server.heartbeats import Links
from cotenant_worker.pid1.event_bus import EventBus
from cotenant_worker.pid1.preemption import Preemption
from cotenant_worker.progress import http_endpoint
from cotenant_worker.progress.progress_board import ProgressBoard
from cotenant_worker.progress.termination import log_line, termination_of, write_termination
from cotenant_worker.progress.tracking import Tracking
from cotenant_worker.ranks.environment import choose_collective, train_driver_environment
from cotenant_worker.ranks.memory_limits import memory_limits_of
from cotenant_worker.ranks.rank_processes import LocalRanks
from cotenant_worker.ray_cluster.processes import RayProcesses
from cotenant_worker.supervision.commands import Finish
from cotenant_worker.supervision.conductor import Conductor
from cotenant_worker.supervision.hangs import hang_timeout_s
from cotenant_worker.supervision.messages import (
    FinishAttempt,
    HeadMessage,
    HeadSilent,
    KillRanks,
    PodCommand,
    PodEvent,
    PodReady,
    Preempt,
    Resize,
    StartRanks,
    StopAtCall,
)
from cotenant_worker.supervision.stopped_ranks import StoppedRanks
from cotenant_worker.supervision.worker_group import WorkerGroup


@dataclass(slots=True)
class Launcher:
    contract: Contract
    env: Mapping[str, str]
    ip: str
    board: ProgressBoard = field(default_factory=ProgressBoard)
    children: ChildWatcher = field(default_factory=ChildWatcher)
    ranks: LocalRanks = field(init=False)
    ray: RayProcesses = field(init=False)
    event_bus: EventBus = field(init=False)
    preemption: Preemption = field(init=False)
    links: Links = field(init=False)
    """To the pods of parameter servers; in rank 0's pod only."""
    verdict: asyncio.Future[Finish] = field(init=False)
    conductor: Conductor | None = None
    """Only where the world is one rank; else it runs in the driver."""
    started_at: float = field(default_factory=time.monotonic)
    tasks: BackgroundTasks = field(init=False)
    tracking: Tracking = field(init=False)
    _sigterm_received: bool = False
    _generation: int = -1

    def __post_init__(self) -> None:
        self.tasks = BackgroundTasks(self._on_task_error)
        self.ranks = LocalRanks(self.contract, self.children, self.env, self._emit, self._mark_phase)
        self.ray = RayProcesses(self.contract, self.children, self.env, self.ip)
        attached, stepped = self.ray.mark_joined, self.ranks.fork_client.preload_next
        self.event_bus = EventBus(
            self.board, self.is_head, self._mark_phase, self._execute, attached, stepped, on_heartbeat=self._emit
        )
        self.preemption = Preemption(self.contract, self.ranks, self.ray, self.board, self._emit)
        self.links = Links(self.contract, self.env, self._emit)
        self.tracking = Tracking(self.contract, self.board)
        self.verdict = asyncio.get_running_loop().create_future()

    @property
    def is_head(self) -> bool:
        return self.contract.node_rank == 0

    @property
    def single_rank(self) -> bool:
        """One rank needs neither peers nor Ray."""
        return not needs_ray(self.contract.mode, self.contract.world_size)

    def _mark_phase(self, what: str, ago_s: float = 0.0) -> None:
        self.board.mark(what, time.monotonic() - self.started_at - ago_s)

    def _on_task_error(self, error: str) -> None:
        self._set_verdict(Finish(names.EXIT_RAY_DIED, "RayDied", f"launcher: {error}"))

    def _set_verdict(self, finish: Finish) -> None:
        """The first verdict counts."""
        if not self.verdict.done():
            self.verdict.set_result(finish)

    # -- life -------------------------------------------------------------------------------------------------

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        self.children.start()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_sigterm)
        self._publish_choices()
        self.ranks.fork_client.start()
        if not self.single_rank and self.contract.mode != "rayTrain":
            self.tasks.start(self._run_ray())
        server = await self.event_bus.open()
        labels = {"job": self.contract.job, "namespace": self.contract.namespace}
        pages = await http_endpoint.serve(self.board, self.ip, labels)
        self._mark_phase("launcher")
        self.tasks.start(self._prepare())
        self.tasks.start(self.preemption.sample_calls())
        self.tasks.start(StoppedRanks(self.ranks.processes, self._emit, hang_timeout_s(self.contract)).watch())
        self.tracking.start(self.tasks)
        finish = await self.verdict
        pages.close()
        server.close()
        return await self._shut_down(finish)

    def _publish_choices(self) -> None:
        self.board.collective, warning = choose_collective(self.contract)
        self.board.warn("collective", warning)
        objection = self.ranks.program.warning
        self.board.warn("command", objection)
        if objection:
            log_line(objection)

    async def _prepare(self) -> None:
        limits, problems = await asyncio.to_thread(memory_limits_of, self.contract)
        for key, text in problems:
            self.board.warn(key, text)
            log_line(text)
        if isinstance(limits, str):
            self._set_verdict(Finish(names.EXIT_QUOTA, "Quota", limits))
            return
        self.ranks.limits = limits
        if self.contract.mode == "rayTrain":
            self.ray.limits = min(limits.values(), key=lambda env: env.get("XLA_CLIENT_MEM_FRACTION", "1"), default={})
            self.ranks.train_driver_env = train_driver_environment(self.contract, self.ray.environment(), self.ip)
            self.tasks.start(self._run_ray())
        if self.single_rank:
            self.conductor = Conductor(self.contract, self)
            self.tasks.start(self._conduct(self.conductor))
        self._emit(PodReady(self.ip))
        if self.is_head and self.contract.servers:
            await self.links.open(self.ip)

    async def _conduct(self, conductor: Conductor) -> None:
        self._set_verdict(await conductor.run())

    async def _run_ray(self) -> None:
        """Start Ray (and the driver); when one of them ends before the verdict, the attempt is over."""
        self.board.state = "rendezvous"
        finish = await self.ray.run()
        if self.preemption.started:
            return  # draining, or gone with its peers: `_see_out` ends this pod
        # The verdict may be on its way: a peer that finished takes Ray with it.
        await asyncio.wait([self.verdict], timeout=2.0)
        self._set_verdict(finish)

    # -- the conductor's side ---------------------------------------------------------------------------------

    def _emit(self, event: PodEvent) -> None:
        """To the conductor, wherever it is."""
        if self.conductor is not None:
            self.tasks.start(self.conductor.handle(0, event))
        else:
            self.event_bus.emit(event)

    async def send(self, pod: int, message: PodCommand) -> None:
        """`Pods` of a world of one: the only pod is this one."""
        await self._execute(message)

    def send_to_head(self, message: HeadMessage) -> None:
        self.event_bus.apply_to_board(message)

    # -- commands ---------------------------------------------------------------------------------------------

    async def _execute(self, command: PodCommand) -> None:
        match command:
            case StartRanks(group):
                self._start(group)
            case KillRanks(generation):
                await self.ranks.kill(generation)
            case Resize():
                self.preemption.request_stop("resize")
            case Preempt():
                self._preempt()
            case StopAtCall(call):
                self.ranks.set_stop_call(call)
            case HeadSilent(silent_s):
                head = self.contract.pods[0].host
                text = f"the pod of rank 0, {head}, has not been heard of for {silent_s:.0f} s"
                self._set_verdict(Finish(names.EXIT_PEER_LOST, "PeerLost", text))
            case FinishAttempt(verdict):
                self._set_verdict(verdict)

    def _start(self, world: WorkerGroup) -> None:
        if world.generation <= self._generation:
            return  # said again by the actor that took another's place
        self._generation = world.generation
        if not self.preemption.started:
            layout.preempt_file().unlink(missing_ok=True)  # of the world that ended to change its size
        self.board.began(world.generation)
        self._mark_phase("world complete")
        if world.resume_step is not None:
            self.board.saved_step = world.resume_step
        self.tasks.start(self._start_ranks(world))

    async def _start_ranks(self, world: WorkerGroup) -> None:
        """Beside the stream of commands: a start may wait for imports, a stop may not wait for a start."""
        await self.ranks.start(world)
        self.board.started()
        self._mark_phase("ranks started")

    def _on_sigterm(self) -> None:
        """SIGTERM from the kubelet."""
        if self._sigterm_received:
            return
        self._sigterm_received = True
        log_line(f"asked to stop: {self.contract.grace_s} s to save and leave")
        self._emit(Preempt())
        self._preempt()

    def _preempt(self) -> None:
        if not self.preemption.started:
            self.preemption.started = True
            self.board.state = "saving"
            self.preemption.request_stop("preempt")
            self.tasks.start(self._wait_for_ranks_to_leave())

    async def _wait_for_ranks_to_leave(self) -> None:
        """Never later than the kubelet's patience."""
        await self.preemption.wait_for_ranks()
        await asyncio.wait([self.verdict], timeout=0.3 if self._sigterm_received else 5.0)
        self._set_verdict(Finish(names.EXIT_PREEMPTED, "Preempted", "asked to stop"))

    # -- the end ----------------------------------------------------------------------------------------------

    async def _shut_down(self, finish: Finish) -> int:
        await self.ranks.kill(1 << 30)
        if self.preemption.started:
            finish = self.preemption.as_preempted(finish)
        await self.links.finish(finish)
        if self.is_head and not self.single_rank:
            # The driver still tells the others, also a pod that just has no actor (`driver.TOLD_S`); then it ends.
            await self.ray.wait_for_driver(3.0 if self.preemption.started else 18.0)
        self.tasks.cancel()
        self.ranks.fork_client.kill()
        await kill_descendants()
        self.board.state = "done"
        await self.tracking.close(succeeded=finish.code == 0)
        write_termination(termination_of(self.contract, self.board, finish), self.env)
        log_line(f"{finish.reason} ({finish.code}): {finish.message}")
        return finish.code
