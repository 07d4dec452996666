"""The rank processes of this pod: started warm or cold, watched, asked to leave, killed. Owned by the launcher."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cotenant.contract import Contract
from cotenant_worker.host import layout
from cotenant_worker.host.container import available_cpus, oom_kills, pod_interface, user_name
from cotenant_worker.host.processes import ChildProcess, ChildWatcher, forward_output
from cotenant_worker.host.workspace import working_directory
from cotenant_worker.messaging.shared_counters import SharedCounters
from cotenant_worker.ranks.environment import (
    TRAIN_OWN,
    base_environment,
    code_path,
    rank_environment,
)
from cotenant_worker.ranks.fork_client import Forks, roomy
from cotenant_worker.ranks.horovod import Companions
from cotenant_worker.ranks.memory_limits import limited
from cotenant_worker.ranks.program import Program, preloads, program_of, source_file, wants_horovod
from cotenant_worker.supervision.failure_cause import RankExit
from cotenant_worker.supervision.worker_group import Member, World


@dataclass(slots=True)
class Running:
    """One live rank."""

    member: Member
    generation: int
    child: ChildProcess
    cell: SharedCounters
    stopped: bool = False
    ooms: int = 0


@dataclass(slots=True)
class LocalRanks:
    contract: Contract
    nursery: ChildWatcher
    inherited: Mapping[str, str]
    emit: Callable[[dict[str, Any]], None]
    """Events for the conductor."""
    mark: Callable[[str, float], None]
    """For the table of start-up phases: what happened, how many seconds ago."""
    train: Mapping[str, str] = field(default_factory=dict)
    """Mode `rayTrain`: what the driver needs to reach Ray."""
    limits: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """Grant → environment that limits its memory."""
    running: dict[int, Running] = field(default_factory=dict)
    program: Program = field(init=False)
    forks: Forks = field(init=False)
    _companions: Companions = field(init=False)
    _base: dict[str, str] = field(init=False)
    _floor: int = -1
    """Generations up to this one are over; a start that comes late for one of them is undone."""
    _watchers: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.program = program_of(self.contract, sys.executable)
        source = self._source()
        horovod = wants_horovod(self.program, source, self.contract.framework)
        self._companions = Companions(self.contract, self.nursery, horovod=horovod)
        self._base = base_environment({"USER": user_name(), **self.inherited}, self.contract, cpus=available_cpus())
        ahead = preloads(source, self.contract.framework)
        possible = self.program.kind != "exec" and self.contract.platform.get("warmStart") is not False
        self.forks = Forks(self.nursery, self._base, ahead, self.mark, possible=possible)

    @property
    def start_in(self) -> Path:
        """The directory that programs start in."""
        return working_directory(Path(code_path(self.contract)), layout.work_dir())

    @property
    def _home(self) -> tuple[str, ...]:
        """Where the job's code lies: a frame has a script's real directory, and a module's as it was found."""
        code = code_path(self.contract)
        return (code, os.path.realpath(code), str(layout.work_dir()))

    def _source(self) -> str:
        """The program's own text; empty when it cannot be told without importing."""
        source = source_file(self.program, Path(code_path(self.contract)))
        return source.read_text(errors="replace") if source else ""

    def processes(self) -> list[tuple[int, int, int]]:
        """(rank, generation, pid) of every rank that runs."""
        return [(run.member.rank, run.generation, run.child.pid) for run in self.running.values()]

    # -- ranks ------------------------------------------------------------------------------------------------

    async def start(self, world: World) -> None:
        await self.stop(world.generation - 1)
        self._companions.start(world, self._base)
        mine = world.of_pod(self.contract.node_rank)
        for member in mine:
            await self._start_one(world, member)
        if roomy(available_cpus(), len(mine)):
            self.forks.look_ahead()

    async def _start_one(self, world: World, member: Member) -> None:
        env = self._base | rank_environment(self.contract, world, member, interface=pod_interface())
        env = limited(env, self.limits.get(member.grant, {})) | dict(self.program.environment)
        if self.contract.mode == "rayTrain":
            env = {name: value for name, value in env.items() if name not in TRAIN_OWN} | dict(self.train)
        cell = SharedCounters(layout.counters_path(member.rank), create=True)
        cell.set("sequence", -1)
        read_end, write_end = os.pipe()
        name = f"rank {member.rank}"
        cwd = str(self.start_in)
        program = self.program.of_rank(env.get("LOCAL_RANK", "0"))
        request = {"env": env, "cwd": cwd, "kind": program.kind, "argv": program.argv}
        pid = await self.forks.fork(request, write_end)
        try:
            child = (
                self.nursery.adopt(name, pid)
                if pid
                else self.nursery.spawn(name, program.command(sys.executable), env, cwd=cwd, output=write_end)
            )
        except OSError as error:
            os.close(read_end)
            self._failed_to_start(member, world.generation, error)
            return
        finally:
            os.close(write_end)
        several = len(self.contract.pods[self.contract.node_rank].ranks) > 1
        child.output = asyncio.create_task(forward_output(read_end, child, f"[rank {member.rank}] " if several else ""))
        run = Running(member, world.generation, child, cell, ooms=oom_kills())
        self.running[member.rank] = run
        if world.generation <= self._floor:
            run.stopped = True
            child.signal(signal.SIGKILL, group=True)
        task = asyncio.create_task(self._watch(run))
        self._watchers.add(task)
        task.add_done_callback(self._watchers.discard)

    def _failed_to_start(self, member: Member, generation: int, error: OSError) -> None:
        command = " ".join(self.program.argv)
        shown = command if len(command) <= 200 else f"{command[:200]} …"
        text = f"cannot run {shown!r}: {error.strerror or error}"
        if isinstance(error, PermissionError):
            text += "; is it executable? A file of a ConfigMap is not: name its interpreter first, as in [bash, run.sh]"
        print(f"cotenant: {text}", file=sys.stderr, flush=True)  # noqa: T201 - the tenant's log
        code = 127 if isinstance(error, FileNotFoundError) else 126
        self._emit_exit(RankExit(member.rank, generation, code, None, time.monotonic(), tail=(text,)))

    async def _watch(self, run: Running) -> None:
        status = await run.child.exit
        at = time.monotonic()
        if run.child.output is not None:
            # Its children may hold the pipe open: the last words are worth a moment, not more.
            await asyncio.wait([run.child.output], timeout=0.2)
        run.child.signal(signal.SIGKILL, group=True)
        if self.running.get(run.member.rank) is run:
            del self.running[run.member.rank]
        code, number = (status, None) if status >= 0 else (None, -status)
        ended = RankExit(
            rank=run.member.rank,
            generation=run.generation,
            code=code,
            signal=number,
            at=at,
            stopped=run.stopped,
            oom=oom_kills() > run.ooms,
            sequence=run.cell.get("sequence"),
            tail=tuple(run.child.tail),
            home=self._home,
        )
        self._emit_exit(ended)

    def _emit_exit(self, ended: RankExit) -> None:
        self.emit({"op": "exit", "exit": ended.to_dict(), "age": time.monotonic() - ended.at})

    async def stop(self, generation: int) -> None:
        """SIGKILL what is left of generations up to this one, and wait until it is gone."""
        self._floor = max(self._floor, generation)
        old = [run for run in self.running.values() if run.generation <= generation]
        for run in old:
            run.stopped = True
            run.child.signal(signal.SIGKILL, group=True)
        if old:
            await asyncio.wait([run.child.exit for run in old], timeout=5.0)
            await asyncio.sleep(0)

    def ask_to_stop(self) -> dict[int, int]:
        """SIGTERM to every rank; how many safe points each has passed, for those that look for them."""
        for run in self.running.values():
            run.child.signal(signal.SIGTERM, group=self.program.kind == "exec" and not _is_python(self.program))
        return {rank: run.cell.get("calls") for rank, run in self.running.items()}

    async def all_gone(self, deadline_s: float) -> None:
        """Wait until no rank of this pod is left, or the deadline."""
        if self._watchers:
            await asyncio.wait(set(self._watchers), timeout=deadline_s)

    def stop_at(self, count: int) -> None:
        for run in self.running.values():
            run.cell.set("stop_at", max(1, count))


def _is_python(program: Program) -> bool:
    return Path(program.argv[0]).name.startswith("python")
