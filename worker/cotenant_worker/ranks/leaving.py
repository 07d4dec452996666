"""Chooses the processes of a departing rank that get SIGTERM: those that can save, behind any wrapper. Pure.

SIGTERM for the first process alone ends a wrapper and leaves the program in the dark; SIGTERM for the whole group ends
the workers of a DataLoader, or the filter that the program prints to, while the program saves. So each process is
judged by what it does with SIGTERM, as the kernel shows it (`procfs.Member`):

- A process that heeds SIGTERM is asked, and nothing below it: it passes the signal on, or needs what it started.
- A shell without a trap is asked, and what it runs too: it dies of SIGTERM and passes nothing on. A shell with a trap
  passes the signal on to what it runs in the background. While it waits in the foreground, its trap does not run.
  `xargs` and `find -exec`, which start one program after the other, are asked like a shell.
- A trap for the exit of bash (`trap 'kill $SERVER' EXIT`) runs at once, and takes away what the program in the
  foreground needs to save. So such a bash is held (SIGSTOP) until that program has left, and asked then.
- A runner of tasks (`task train`, `snakemake`, `nox`, GNU parallel) is held too: it passes no signal on, and would
  start the next task. One through which the program prints (`inv`, `honcho`, `supervisord`) cannot be held. It is
  spared, and asked right after.
- A helper that a run script starts beside a Python program (Xvfb, a Redis) is spared while a Python program heeds: the
  program needs it to save.
- So is another Python program beside the one that trains, such as a server that generates its samples (`trl vllm-serve
  … &`). One that runs the same script is asked, for the two train together. If no step was counted, programs in the
  foreground train, and those in the background are beside them. After half of the time all are asked.
- A shell below `script`, `dumb-init`, `honcho` or `supervisord` is spared while a process below them heeds: when it
  ends, they end all that they started, or start it again.
- A process that heeds nothing is spared while one below it heeds, for its end may end its children.
- A carrier of signals (`timeout`, `tini`, `dumb-init`, `mpirun`, DeepSpeed's launcher) is spared too: it would signal a
  whole group, loader workers too, or one process twice, or kill it a moment later.
- A profiler (`nsys`, `perf`) is spared too, and after its program has ended: then it writes what it has seen.
- Everything else is asked once no process that heeds is left.
- A wrapper in Python that starts its program again when that has left is asked then.

A process whose parent has gone is asked like a first one.
"""

from __future__ import annotations

import math
import signal
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from cotenant_worker.host.procfs import Member

LOADER_WORKER: Final = "pt_data_worker"
"""Name that torch gives to workers of a DataLoader, and the shim to those of an older torch."""
MOMENT_S: Final = 2.0
"""Time in which a wrapper ends by itself after its program has ended."""
_CARRIERS: Final = frozenset(
    {"timeout", "tini", "tini-static", "docker-init", "dumb-init", "catatonit", "script"}
    | {"mpirun", "mpiexec", "orterun", "prterun"}
    | {"deepspeed", "deepspeed.launcher.runner", "deepspeed.launcher.launch", "horovodrun", "submitit.local._local"}
)
"""They wait, and pass signals on: some to a whole group, some twice, some to a shell alone. A program may take a second
signal for "at once". Open MPI's launchers kill at once, horovodrun after five seconds. DeepSpeed's tells one rank after
the other, each with its loader workers.
"""
_TASKS: Final = frozenset({"nox", "parallel", "snakemake", "task"})
_SWALLOWS: Final = frozenset({"task"})
"""They count signals and go on. So SIGKILL ends them: there is nothing that they would save."""
_PRINTING_TASKS: Final = frozenset({"doit", "honcho", "inv", "invoke", "poe", "supervisord"})
"""Runners that pass on what their tasks print. poe sends them SIGINT for SIGTERM. honcho kills them after five seconds,
supervisord after ten.
"""
_WRITE_AT_THE_END: Final = frozenset(
    {"nsys", "nsys-launcher", "ncu", "perf", "py-spy", "rocprof", "rocprofv3", "vtune"}
)
_SPARED: Final = _CARRIERS | _PRINTING_TASKS | _WRITE_AT_THE_END
_ENDS_ALL: Final = frozenset({"dumb-init", "honcho", "script", "supervisord"})
"""When a process that they started ends, all that they started gets a signal too: a second SIGTERM, or SIGHUP.
supervisord starts it again.
"""
_SHELLS: Final = frozenset({"sh", "bash", "dash", "ash", "busybox", "zsh", "ksh", "mksh", "fish", "csh", "tcsh"})
_ONE_AFTER_THE_OTHER: Final = frozenset({"xargs", "find"})
"""They would start their next program while this one leaves."""


@dataclass(slots=True)
class Departure:
    """One rank's departure: `due` names the processes to send SIGTERM to, each of them once."""

    patience_s: float = math.inf
    """Seconds after which programs beside the one that trains are asked, whatever that one does."""
    _begun_at: float | None = None
    _asked: set[int] = field(default_factory=set)
    _heeded_until: float | None = None
    """When a process that heeds was last seen; None if none ever was."""
    _programs: dict[int, Member] = field(default_factory=dict)
    """The processes that were asked, by their PIDs."""
    held: set[int] = field(default_factory=set)
    """Processes that are stopped, until `due` names them."""

    def signals(
        self, members: Sequence[Member], now: float, listener: int = 0, trainer: int = 0
    ) -> list[tuple[int, signal.Signals]]:
        """(PID, signal) of all that is to be sent now."""
        held = self.held
        swallow = {each.pid for each in members if each.pid in held and each.program in _SWALLOWS}
        due = self.due(members, now, listener, trainer)
        asked = [(pid, signal.SIGKILL if pid in swallow else signal.SIGTERM) for pid in due]
        return asked + [(pid, signal.SIGSTOP if pid in self.held else signal.SIGCONT) for pid in held ^ self.held]

    def due(self, members: Sequence[Member], now: float, listener: int = 0, trainer: int = 0) -> list[int]:
        """PIDs to ask now. `members` are the remaining processes of the rank. `listener` knows of it without a signal,
        and would die of one: `should_stop()` in another thread than the main one.
        """
        self._begun_at = now if self._begun_at is None else self._begun_at
        self._asked.add(listener)
        members = [replace(each, heeds=each.heeds or each.pid == listener) for each in members]
        wanted = whom_to_ask(members, trainer, patient=now < self._begun_at + self.patience_s)
        told = [each for each in members if each.pid in self._asked or each in wanted]
        leaving = any(each.heeds and each.program not in _WRITE_AT_THE_END for each in told)
        if leaving:
            self._heeded_until = now
        if self._heeded_until is not None and now < self._heeded_until + MOMENT_S:
            runners = frozenset() if leaving else _PRINTING_TASKS
            wanted = [each for each in wanted if each.heeds or _is_shell(each) or _names(each) & runners]
        if self._heeded_until is not None:
            wanted = [each for each in wanted if each.program not in _WRITE_AT_THE_END]
        wanted += self._that_start_again(members)
        self.held = {each.pid for each in wanted if _goes_on_too_early(each, members)} - self._asked
        found = [each.pid for each in wanted if each.pid not in self._asked | self.held]
        self._asked.update(found)
        self._programs |= {each.pid: each for each in members if each.pid in found}
        return found

    def _that_start_again(self, members: Sequence[Member]) -> list[Member]:
        """Wrappers in Python that run a program again when it has left, until it ends with 0."""
        there = {each.pid for each in members}
        left = {(each.parent, each.script) for pid, each in self._programs.items() if pid not in there and each.script}
        new = (each for each in members if each.pid not in self._programs)
        again = {each.parent for each in new if (each.parent, each.script) in left}
        runners = (each for each in members if each.pid in again and _is_python(each))
        return [each for each in runners if not each.heeds or _names(each) & _SPARED]


def whom_to_ask(members: Sequence[Member], trainer: int = 0, *, patient: bool = True) -> list[Member]:
    """The processes that get SIGTERM now. `trainer`: PID of the one that makes the steps; 0 if unknown. `patient`: not
    the programs beside it.
    """
    children = _children(members)
    found = [found for first in children[0] for found in _below(first, children)]
    if not any(each.heeds and _is_python(each) for each in found):
        return found
    trees = {each: list(_tree(each, children)) for each in found}
    scripts = {each: next((one.script for one in trees[each] if _is_python(one)), None) for each in found}
    found = [each for each in found if not each.heeds or _is_shell(each) or scripts[each] is not None]
    programs = [each for each in found if each.heeds and not _is_shell(each)]
    training = {scripts[each] for each in programs if any(one.pid == trainer for one in trees[each])}
    training = training or {scripts[each] for each in programs if not each.in_background}
    spared = [each for each in programs if patient and training and scripts[each] not in training]
    return [each for each in found if each not in spared]


def _children(members: Sequence[Member]) -> dict[int, list[Member]]:
    """PID → the processes that it started; 0 → those whose parent has gone."""
    children: dict[int, list[Member]] = defaultdict(list)
    pids = {each.pid for each in members}
    for each in members:
        children[each.parent if each.parent in pids else 0].append(each)
    return children


def _goes_on_too_early(member: Member, members: Sequence[Member]) -> bool:
    """True if it would run its trap for the exit, or go on with its next task, while a program in its foreground
    saves.
    """
    if not (member.exit_trap or _names(member) & _TASKS):
        return False
    children = _children(members)
    foreground = (child for child in children[member.pid] if not child.in_background)
    below = (each for child in foreground for each in _below(child, children))
    return any(each.heeds and not _is_shell(each) for each in below)


def _tree(member: Member, children: Mapping[int, Sequence[Member]]) -> Iterator[Member]:
    """The process and all below it."""
    yield member
    for child in children.get(member.pid, ()):
        yield from _tree(child, children)


def _is_python(member: Member) -> bool:
    return member.program.startswith("python")


def _below(member: Member, children: dict[int, list[Member]]) -> list[Member]:
    """Processes to ask among this one and all below it."""
    started = [child for child in children[member.pid] if child.name != LOADER_WORKER]
    if member.program in _SHELLS and member.heeds:
        started = [child for child in started if not child.in_background]
    elif member.heeds and not _is_shell(member) and not _names(member) & _SPARED:
        return [member]
    below = [found for child in started for found in _below(child, children)]
    savers = [each for each in below if each.heeds and not _is_shell(each)]
    if savers and _names(member) & _ENDS_ALL:
        return savers
    if any(each.heeds for each in below):
        below = [each for each in below if each.heeds or _is_shell(each)]
        return [member, *below] if _is_shell(member) and not member.ignores else below
    if _is_shell(member) and not member.ignores:
        return [member, *below]
    return below if member.ignores else [member]


def _names(member: Member) -> set[str]:
    return {member.program, member.name, member.script}


def _is_shell(member: Member) -> bool:
    """True for a process that runs one program after the other and passes no signal on to the program in the
    foreground.
    """
    return member.program in _SHELLS | _ONE_AFTER_THE_OTHER or bool(_names(member) & _TASKS)
