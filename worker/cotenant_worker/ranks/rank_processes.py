"""The rank processes of this pod: forked or spawned, watched, asked to leave, killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cotenant.contract import Contract
from cotenant_worker.host import layout
from cotenant_worker.host.container import available_cpus, has_lost_gpus, oom_kills, pod_interface, user_name
from cotenant_worker.host.process_tree import ProcessTree
from cotenant_worker.host.processes import ChildProcess, ChildWatcher, forwarding, refusal
from cotenant_worker.host.shared_memory import SharedMemory
from cotenant_worker.host.workspace import remove_stale_locks, working_directory
from cotenant_worker.messaging.shared_counters import SharedCounters
from cotenant_worker.ranks.device_environment import compute_namespace
from cotenant_worker.ranks.environment import (
    RAY_TRAIN_VARIABLES,
    base_environment,
    code_path,
    grant_of,
    rank_environment,
)
from cotenant_worker.ranks.error_files import (
    GROUP_KILL_HINT,
    ends_itself,
    environment_for_errors,
    error_of,
    killed_itself,
    lingering,
)
from cotenant_worker.ranks.fork_client import ForkClient, has_spare_cpu
from cotenant_worker.ranks.fork_protocol import ForkRequest
from cotenant_worker.ranks.framework_environment import past_proxies
from cotenant_worker.ranks.horovod import HorovodRendezvous
from cotenant_worker.ranks.leaving import Departure
from cotenant_worker.ranks.memory_limits import with_limits
from cotenant_worker.ranks.program import Program, preloads, program_of, script_text, source_text, wants_horovod
from cotenant_worker.supervision.failure_cause import RankExit
from cotenant_worker.supervision.leave_budget import leave_budget_s
from cotenant_worker.supervision.lingering_ranks import Lingering
from cotenant_worker.supervision.messages import RankExited
from cotenant_worker.supervision.rank_error import RankError
from cotenant_worker.supervision.worker_group import RankAssignment, WorkerGroup

_LOOK_S: Final = 0.05
"""Pause between two looks at the processes of a rank that was asked to leave."""


@dataclass(slots=True)
class RunningRank:
    assignment: RankAssignment
    generation: int
    child: ChildProcess
    counters: SharedCounters
    stopped: bool = False
    code: int | None = None
    """The exit code of its program, if that was over and we ended its remaining processes."""
    oom_kills_before: int = 0
    departure: asyncio.Task[None] | None = None
    """Set if it was asked to leave; done once all its processes are gone."""

    @property
    def tree(self) -> ProcessTree:
        return ProcessTree(self.child.pid, self.assignment.rank, self.generation)

    def kill(self) -> None:
        """SIGKILL all of its processes."""
        self.child.signal(signal.SIGKILL, group=True)
        self.tree.kill()

    def stop(self) -> None:
        """SIGKILL its processes because the rank is over. `_watch` kills what does not end by that."""
        self.stopped = True
        self.tree.kill_but_cleaners()
        self.child.signal(signal.SIGKILL)


@dataclass(slots=True)
class LocalRanks:
    contract: Contract
    children: ChildWatcher
    inherited: Mapping[str, str]
    emit: Callable[[RankExited], None]
    """Events for the conductor."""
    mark_phase: Callable[[str, float], None]
    """(start-up phase, seconds since then) for the table of timings."""
    train_driver_env: Mapping[str, str] = field(default_factory=dict)
    """Mode `rayTrain`: what the driver needs to connect to Ray."""
    limits: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """Grant → environment that limits its memory."""
    running: dict[int, RunningRank] = field(default_factory=dict)
    program: Program = field(init=False)
    fork_client: ForkClient = field(init=False)
    _horovod: HorovodRendezvous = field(init=False)
    _base_env: dict[str, str] = field(init=False)
    _shared_memory: SharedMemory = field(default_factory=SharedMemory)
    _code: Path = field(init=False)
    """The directory of the job's code."""
    _stopped_generation: int = -1
    """Generations up to this one are over. A late start for one of them is undone."""
    _watchers: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.program = program_of(self.contract, sys.executable)
        self._code = Path(code_path(self.contract))
        source, beside = source_text(self.program, self._code)
        horovod = wants_horovod(self.program, source, self.contract.framework)
        self._horovod = HorovodRendezvous(self.contract, self.children, enabled=horovod)
        inherited = {"USER": user_name(), **self.inherited}
        self._base_env = base_environment(inherited, self.contract, cpus=available_cpus(), interface=pod_interface())
        ahead = preloads(source, self.contract.framework, beside)
        possible = self.program.kind != "exec" and self.contract.platform.get("warmStart") is not False
        self.fork_client = ForkClient(
            self.children, self._base_env, ahead, self.mark_phase, possible, str(self.working_directory)
        )

    @property
    def working_directory(self) -> Path:
        """The directory in which programs start."""
        return working_directory(self._code, layout.work_dir())

    @property
    def _code_directories(self) -> tuple[str, ...]:
        """Directories of the job's code. A frame has a script's real directory, and a module's as it was found."""
        code = code_path(self.contract)
        return (code, os.path.realpath(code), str(layout.work_dir()))

    def processes(self) -> list[tuple[int, int, int]]:
        """(rank, generation, pid) of every running rank."""
        return [(run.assignment.rank, run.generation, run.child.pid) for run in self.running.values()]

    # -- ranks ------------------------------------------------------------------------------------------------

    async def start(self, group: WorkerGroup) -> None:
        await self.kill(group.generation - 1)
        remove_stale_locks(self._base_env)
        if os.getpid() == 1 and self.contract.mode != "rayTrain":  # else the folder is not this pod's, or Ray's too
            self._shared_memory.begin()
        self._horovod.start(group, self._base_env)
        mine = group.of_pod(self.contract.node_rank)
        for assignment in mine:
            await self._start_one(group, assignment)
        if has_spare_cpu(available_cpus(), len(mine)):
            self.fork_client.preload_next()

    async def _start_one(self, group: WorkerGroup, assignment: RankAssignment) -> None:
        script = script_text(self.program, self._code)
        env = self._base_env | rank_environment(self.contract, group, assignment, script)
        env |= past_proxies(env, group)
        env |= compute_namespace(self.inherited, grant_of(self.contract.pods[assignment.pod], assignment.grant).gpus)
        env = with_limits(env, self.limits.get(assignment.grant, {})) | dict(self.program.environment)
        if self.contract.mode == "rayTrain":
            env = {name: value for name, value in env.items() if name not in RAY_TRAIN_VARIABLES} | dict(
                self.train_driver_env
            )
        env = environment_for_errors(assignment.rank, group.generation) | self._horovod.variables(env)
        cell = SharedCounters(layout.counters_path(assignment.rank))
        cell.set("sequence", -1)
        read_end, write_end = os.pipe()
        name = f"rank {assignment.rank}"
        cwd = str(self.working_directory)
        program = self.program.for_rank(env.get("LOCAL_RANK", "0"))
        request = ForkRequest(env, cwd, program.kind, program.argv)
        pid = await self.fork_client.fork(request, write_end)
        try:
            child = (
                self.children.adopt(name, pid)
                if pid
                else self.children.spawn(name, program.command(sys.executable), env, cwd=cwd, output=write_end)
            )
        except OSError as error:
            os.close(read_end)
            self._failed_to_start(assignment, group.generation, error)
            return
        finally:
            os.close(write_end)
        prefix = f"[rank {assignment.rank}] " if len(self.contract.pods[self.contract.node_rank].ranks) > 1 else ""
        child.output = forwarding(read_end, child, prefix)
        run = RunningRank(assignment, group.generation, child, cell, oom_kills_before=oom_kills())
        self.running[assignment.rank] = run
        if group.generation <= self._stopped_generation:
            run.stop()
        task = asyncio.create_task(self._watch(run))
        self._watchers.add(task)
        task.add_done_callback(self._watchers.discard)

    def _failed_to_start(self, assignment: RankAssignment, generation: int, error: OSError) -> None:
        command = " ".join(self.program.argv)
        shown = command if len(command) <= 200 else f"{command[:200]} …"
        text = f"cannot run {shown!r}: {refusal(error, self.working_directory / self.program.argv[0])}"
        words = self.program.argv[0].split()
        if isinstance(error, FileNotFoundError) and len(words) > 1:
            text += f"; write the words as a list: [{', '.join(words)}]"
        print(f"cotenant: {text}", file=sys.stderr, flush=True)  # noqa: T201 - the tenant's log
        code = 127 if isinstance(error, FileNotFoundError) else 126
        self._emit_exit(RankExit(assignment.rank, generation, code, None, time.monotonic(), tail=(text,)))

    async def _watch(self, run: RunningRank) -> None:
        status = await run.child.exit
        if run.departure is not None:
            await run.departure  # the first process may be a wrapper: the one that saves needs its time
        at = time.monotonic()
        if run.child.output is not None:
            # Its children may hold the pipe open: the last lines are worth a moment, not more.
            await asyncio.wait([run.child.output], timeout=0.2)
        left = () if status or run.stopped or run.departure else await run.tree.left_behind()
        run.kill()
        if self.running.get(run.assignment.rank) is run:
            del self.running[run.assignment.rank]
        tail = tuple(run.child.tail)
        code, number = self.program.code_and_signal(status, tail)
        if run.code is not None:
            code, number = run.code, None
        own_kill = killed_itself(run.assignment.rank, run.generation, number, at)
        if number == signal.SIGTERM and not own_kill and ends_itself(script_text(self.program, self._code)):
            own_kill, tail = True, (*tail, GROUP_KILL_HINT)
        ended = RankExit(
            rank=run.assignment.rank,
            generation=run.generation,
            code=code,
            signal=number,
            at=at,
            stopped=run.stopped,
            oom=oom_kills() > run.oom_kills_before,
            gpus_lost=has_lost_gpus(),
            own_kill=own_kill,
            worked=max(run.counters.get("step"), run.counters.get("calls")) > 0,
            sequence=run.counters.get("sequence"),
            tail=tail,
            home=self._code_directories,
            error=self._error_of(run, status),
            left_behind=left,
        )
        self._emit_exit(ended)

    def _error_of(self, run: RunningRank, status: int) -> RankError | None:
        """The failure that ended a rank, or that its shell hides by ending with 0."""
        if status == 0 and self.program.kind != "exec":
            return None
        return error_of(run.assignment.rank, run.generation, run.child.pid, succeeded=status == 0)

    def _emit_exit(self, ended: RankExit) -> None:
        self.emit(RankExited(ended, age_s=time.monotonic() - ended.at))

    async def kill(self, generation: int) -> None:
        """SIGKILL what is left of generations up to this one, and wait until it is gone."""
        self._stopped_generation = max(self._stopped_generation, generation)
        old = [run for run in self.running.values() if run.generation <= generation]
        for run in old:
            run.stop()
        if old:
            await asyncio.wait([run.child.exit for run in old], timeout=5.0)
            await asyncio.sleep(0)

    def terminate(self) -> dict[int, int]:
        """Ask every rank to leave. Returns how many safe points each rank has passed, for ranks that use them."""
        for run in self.running.values():
            if run.departure is None:
                run.departure = asyncio.create_task(_depart(run, Departure(leave_budget_s(self.contract) / 2)))
        return {rank: run.counters.get("calls") for rank, run in self.running.items()}

    def lingering(self) -> list[Lingering]:
        """The ranks whose program is over and whose process is not."""
        found = [lingering(rank, generation, pid) for rank, generation, pid in self.processes()]
        return [each for each in found if each is not None]

    def end_lingering(self, rank: int, code: int, force: bool) -> None:
        """End a rank whose program is over, with this exit code, and that does not leave by itself."""
        run = self.running.get(rank)
        if run is not None:
            run.code = code
            run.child.signal(signal.SIGKILL if force else signal.SIGTERM, group=force)

    async def wait_until_gone(self, deadline_s: float) -> None:
        """Wait until no rank of this pod is left, or the deadline."""
        if self._watchers:
            await asyncio.wait(set(self._watchers), timeout=deadline_s)

    def set_stop_call(self, count: int) -> None:
        for run in self.running.values():
            run.counters.set("stop_at", max(1, count))


async def _depart(run: RunningRank, departure: Departure) -> None:
    """Ask the processes of a rank to leave, and wait until none is left or the rank is killed."""
    while members := run.tree.members():
        known = run.counters.get("listener"), run.counters.get("trainer")
        killed = [(each.pid, signal.SIGKILL) for each in members] if run.stopped else []
        for pid, number in killed or departure.signals(members, time.monotonic(), *known):
            run.tree.signal(pid, number)
        await asyncio.sleep(_LOOK_S)
    if run.child.alive and not run.stopped:  # it has only just been forked
        run.child.signal(signal.SIGTERM)
