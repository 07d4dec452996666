"""Process 1 of a worker pod: starts Ray and the ranks, answers health and progress, owns the exit code.

It uses the stdlib only, so that it is up in a tenth of a second; code that needs ray or torch runs in a child. `run` is
the table of contents: early starts, the endpoints, the memory limits, the verdict, the end. The conductor's commands
arrive in `_execute`: from the actor, or from a conductor in this process if the group is one rank. In torchelastic's
terms `LocalRanks` starts and stops the workers, and `Conductor` is the monitor loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from cotenant import names
from cotenant.contract import Contract, needs_ray
from cotenant_worker.host import layout, termination_signals
from cotenant_worker.host.background_tasks import BackgroundTasks
from cotenant_worker.host.processes import ChildWatcher, finish_logs, kill_descendants
from cotenant_worker.host.workspace import make_user_packages, trust_repositories
from cotenant_worker.parameter_server.heartbeats import ServerLinks
from cotenant_worker.pid1.data_staging import DataStaging
from cotenant_worker.pid1.evaluator import told_of
from cotenant_worker.pid1.event_bus import EventBus
from cotenant_worker.pid1.preemption import Preemption
from cotenant_worker.pid1.preparation import (
    apply_memory_limits,
    prepare_checkpoint_folder,
    publish_choices,
    refuse_unreadable_code,
)
from cotenant_worker.pid1.scratch_space import ScratchSpace
from cotenant_worker.progress import http_endpoint
from cotenant_worker.progress.progress_board import ProgressBoard
from cotenant_worker.progress.termination import log_line, termination_of, write_termination
from cotenant_worker.progress.tracking import Tracking
from cotenant_worker.ranks.environment import train_driver_environment
from cotenant_worker.ranks.rank_processes import LocalRanks
from cotenant_worker.ray_cluster.processes import RayProcesses
from cotenant_worker.supervision.commands import Finish, KillRanks, Resize
from cotenant_worker.supervision.hangs import hang_timeout_s
from cotenant_worker.supervision.lingering_ranks import LingeringRanks
from cotenant_worker.supervision.messages import (
    FinishAttempt,
    HeadMessage,
    HeadSilent,
    PodCommand,
    PodEvent,
    PodReady,
    Preempt,
    StartRanks,
    StopAtCall,
)
from cotenant_worker.supervision.rank_reports import ProgressWarning
from cotenant_worker.supervision.stopped_ranks import StoppedRanks
from cotenant_worker.supervision.worker_group import WorkerGroup

if TYPE_CHECKING:
    from cotenant_worker.supervision.conductor import Conductor

_SAMPLE_S: Final = 0.5
"""Pause between two samples of the safe points."""
_LOOK_S: Final = 2.0
"""Pause between two looks at the processes of the ranks."""


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
    links: ServerLinks = field(init=False)
    """Links to the pods of parameter servers; in rank 0's pod only."""
    verdict: asyncio.Future[Finish] = field(init=False)
    conductor: Conductor | None = None
    """Set if the group is one rank, for which this launcher is `Pods`. Otherwise the driver has it."""
    started_at: float = field(default_factory=time.monotonic)
    tasks: BackgroundTasks = field(init=False)
    tracking: Tracking = field(init=False)
    _sigterm_received: bool = False
    _generation: int = -1

    def __post_init__(self) -> None:
        self.tasks = BackgroundTasks(self._on_task_error)
        self.ranks = LocalRanks(self.contract, self.children, self.env, self._emit, self._mark_phase)
        self.ray = RayProcesses(self.contract, self.children, self.env, self.ip)
        self.event_bus = EventBus(
            self.board,
            self.is_head,
            self._mark_phase,
            self._execute,
            on_actor_attached=self.ray.mark_joined,
            on_first_step=self.ranks.fork_client.preload_next,
            on_heartbeat=self._emit,
        )
        self.preemption = Preemption(self.contract, self.ranks, self.ray, self.board, self._emit)
        self.links = ServerLinks(self.contract, self.env, self._emit)
        self.tracking = Tracking(self.contract, self.board)
        self.verdict = asyncio.get_running_loop().create_future()

    @property
    def is_head(self) -> bool:
        return self.contract.node_rank == 0

    @property
    def single_rank(self) -> bool:
        """True for one rank, which needs neither peers nor Ray."""
        return not needs_ray(self.contract.mode, self.contract.world_size)

    # -- from the start to the verdict ------------------------------------------------------------------------

    async def run(self) -> int:
        """Run the pod from its first to its last process and return the exit code."""
        self.children.start()
        termination_signals.deliver(asyncio.get_running_loop(), self._on_sigterm)
        publish_choices(self.contract, self.board, self.ranks.program.warning)
        make_user_packages(self.env)
        trust_repositories(self.env)
        self._start_early()
        bus = await self.event_bus.open()
        labels = {"job": self.contract.job, "namespace": self.contract.namespace}
        pages = await http_endpoint.serve(self.board, self.ip, labels)
        self._mark_phase("launcher")
        self.tasks.start(self._join())
        self.tasks.every(_SAMPLE_S, self.preemption.sample_calls)
        self.tasks.every(_LOOK_S, StoppedRanks(self.ranks.processes, self._emit, hang_timeout_s(self.contract)).check)
        self.tasks.every(_LOOK_S, LingeringRanks(self.ranks.lingering, self.ranks.end_lingering, self._warn).check)
        self.tasks.start(ScratchSpace(int(self.contract.platform.get("scratchMib", 0)), self._warn).watch())
        self.tracking.start(self.tasks)
        finish = await self.verdict
        pages.close()
        bus.close()
        return await self._shut_down(finish)

    def _start_early(self) -> None:
        """Start what takes seconds and depends on nothing: imports of the program, and Ray."""
        self.ranks.fork_client.start()
        if not self.single_rank and self.contract.mode != "rayTrain":
            self.tasks.start(self._run_ray())

    async def _join(self) -> None:
        """Prepare what ranks need, then report this pod as ready. From then on the conductor commands it."""
        refused = refuse_unreadable_code(self.contract) or await prepare_checkpoint_folder(self.contract)
        # Checked before data are fetched, which may take long: the node's GPUs may not work.
        refused = refused or await apply_memory_limits(self.contract, self.board, self.ranks, self.ray)
        refused = refused or await DataStaging(self.contract, self.children, self.env, self.board, self._emit).run()
        if refused is not None:
            self._set_verdict(refused)
            return
        if self.contract.mode == "rayTrain":
            self.ranks.train_driver_env = train_driver_environment(self.contract, self.ray.environment(), self.ip)
            self.tasks.start(self._run_ray())
        if self.single_rank:
            from cotenant_worker.supervision.conductor import Conductor  # other pods have no use for it

            self.conductor = Conductor(self.contract, self)
            self.tasks.start(self._conduct(self.conductor))
        self._emit(PodReady(self.ip))
        if self.is_head and self.contract.servers:
            await self.links.open(self.ip)

    async def _run_ray(self) -> None:
        """Start Ray (and the driver). If one of them ends before the verdict, the attempt is over."""
        self.board.state = "rendezvous"
        finish = await self.ray.run()
        if self.preemption.started:
            return  # draining, or gone with its peers: `_wait_for_ranks_to_leave` ends this pod
        # Ray also ends when a peer pod has finished, so the verdict may still be on its way.
        await asyncio.wait([self.verdict], timeout=2.0)
        self._set_verdict(finish)

    async def _conduct(self, conductor: Conductor) -> None:
        self._set_verdict(await conductor.run())

    def _mark_phase(self, phase: str, ago_s: float = 0.0) -> None:
        self.board.mark(phase, time.monotonic() - self.started_at - ago_s)

    def _warn(self, key: str, text: str) -> None:
        if text:
            log_line(text)
        self.event_bus.report(ProgressWarning(key, text))

    def _on_task_error(self, error: str) -> None:
        self._set_verdict(Finish(names.EXIT_RAY_DIED, "RayDied", f"launcher: {error}"))

    def _set_verdict(self, finish: Finish) -> None:
        """Set the verdict. Only the first one counts."""
        if not self.verdict.done():
            self.verdict.set_result(finish)

    # -- events to the conductor, commands from it ------------------------------------------------------------

    def _emit(self, event: PodEvent) -> None:
        """Send to the conductor, wherever it runs."""
        if self.conductor is not None:
            self.tasks.start(self.conductor.handle(0, event))
        else:
            self.event_bus.emit(event)

    async def send(self, pod: int, message: PodCommand) -> None:
        """Take a command from the conductor in this process."""
        await self._execute(message)

    def send_to_head(self, message: HeadMessage) -> None:
        self.event_bus.apply_to_board(message)

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
                text = f"the pod of rank 0, {self.contract.pods[0].host}, has not been heard of for {silent_s:.0f} s"
                self._set_verdict(Finish(names.EXIT_PEER_LOST, "PeerLost", text))
            case FinishAttempt(verdict):
                self._set_verdict(verdict)

    def _start(self, group: WorkerGroup) -> None:
        if group.generation <= self._generation:
            return  # sent again by the actor that took another's place
        self._generation = group.generation
        if self.preemption.started:
            return  # the pod is leaving: ranks that start now would only be killed
        layout.preempt_file().unlink(missing_ok=True)  # of the group that ended to change its size
        self.board.began(group.generation)
        self._mark_phase("world complete")
        if group.resume_step is not None:
            self.board.saved_step = group.resume_step
        self.tasks.start(self._start_ranks(group))

    async def _start_ranks(self, group: WorkerGroup) -> None:
        """Start ranks in a task of its own: a start may wait for imports, and a stop must not wait for a start."""
        await self.ranks.start(group)
        self.board.started()
        self._mark_phase("ranks started")

    def _on_sigterm(self) -> None:
        """SIGTERM from the kubelet: save and leave."""
        if self._sigterm_received:
            return
        self._sigterm_received = True
        log_line(f"asked to stop: {self.contract.grace_s} s to save and leave")
        self._emit(Preempt())
        self._preempt()

    def _preempt(self) -> None:
        if self.preemption.start():
            self.tasks.start(self._wait_for_ranks_to_leave())

    async def _wait_for_ranks_to_leave(self) -> None:
        """End this pod within the kubelet's grace period."""
        await self.preemption.wait_for_ranks()
        await asyncio.wait([self.verdict], timeout=0.3 if self._sigterm_received else 5.0)
        self._set_verdict(Finish(names.EXIT_PREEMPTED, "Preempted", "asked to stop"))

    # -- the end ----------------------------------------------------------------------------------------------

    async def _shut_down(self, finish: Finish) -> int:
        await self.ranks.kill(1 << 30)
        if self.preemption.started:
            finish = self.preemption.as_preempted(finish)
        finish = told_of(self.contract, finish)
        await self.links.finish(finish)
        if self.is_head and not self.single_rank:
            # The driver still delivers the verdict to the other pods, also to a pod whose actor is being replaced
            # (`DELIVER_VERDICT_S`).
            await self.ray.wait_for_driver(3.0 if self.preemption.started else 18.0)
        self.tasks.cancel()
        self.ranks.fork_client.kill()
        await kill_descendants()
        await finish_logs()
        self.board.state = "done"
        await self.tracking.close(succeeded=finish.code == 0)
        write_termination(termination_of(self.contract, self.board, finish), self.env)
        log_line(f"{finish.reason} ({finish.code}): {finish.message}")
        return finish.code
