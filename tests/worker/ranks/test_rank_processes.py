"""Ranks of a pod: how they are started, how their ends are recorded, how they are asked to leave. No process starts."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from cotenant.contract import Contract
from cotenant_worker.host import layout, procfs
from cotenant_worker.host.processes import ChildProcess, ChildWatcher
from cotenant_worker.host.procfs import Member
from cotenant_worker.host.shared_memory import SharedMemory
from cotenant_worker.ranks import rank_processes
from cotenant_worker.ranks.rank_processes import LocalRanks
from cotenant_worker.supervision.failure_cause import RankExit, first_cause
from cotenant_worker.supervision.messages import RankExited
from cotenant_worker.supervision.worker_group import WorkerGroup, assign_ranks
from tests.support.pod_sandbox import contract


@dataclass
class PlayedChild(ChildProcess):
    """A process that ends when it is killed, or when a test sets `exit`."""

    argv: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    signals: list[tuple[int, bool]] = field(default_factory=list)

    def signal(self, number: int, *, group: bool = False) -> None:
        self.signals.append((number, group))
        if number == signal.SIGKILL and self.alive:
            self.exit.set_result(-signal.SIGKILL)


class PlayedChildren(ChildWatcher):
    """Starts played children. `printed` is their output; `refusal` is raised instead of a start."""

    def __init__(self, printed: bytes = b"", refusal: OSError | None = None) -> None:
        super().__init__()
        self.printed, self.refusal = printed, refusal
        self.spawned: list[PlayedChild] = []

    def spawn(
        self,
        name: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        cwd: str,
        output: int,
        keep: Sequence[int] = (),
    ) -> ChildProcess:
        if self.refusal is not None:
            raise self.refusal
        os.write(output, self.printed)
        ends: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.spawned.append(PlayedChild(name, 100 + len(self.spawned), ends, argv=argv, env=env, cwd=cwd))
        return self.spawned[-1]


class Pod:
    """The ranks of one pod, over played children; `exits` are the events for the conductor."""

    def __init__(self, job: Contract, children: PlayedChildren | None = None, **fields: Any) -> None:
        self.job = job
        self.children = children or PlayedChildren()
        self.exits: list[RankExited] = []
        self.ranks = LocalRanks(job, self.children, {}, self.exits.append, lambda *_: None, **fields)

    async def start(self, generation: int = 0) -> list[PlayedChild]:
        addresses = {pod: f"10.0.0.{pod + 1}" for pod in range(len(self.job.pods))}
        members = assign_ranks(self.job, addresses)
        before = len(self.children.spawned)
        await self.ranks.start(WorkerGroup(generation, members, "10.0.0.1", 24001, 24002))
        return self.children.spawned[before:]

    async def ended(self) -> list[RankExit]:
        """The ends so far, once all that ended is recorded; without their time."""
        await self.ranks.wait_until_gone(5)
        return [replace(event.exit, at=0.0, home=()) for event in self.exits]


class PlayedSessions:
    """The processes of every rank, as a test says, and the signals that they got."""

    def __init__(self) -> None:
        self.members: list[Member] = []
        self.sent: list[tuple[int, int]] = []
        self._looks = 0

    def look(self, *_: object) -> list[Member]:
        self._looks += 1
        return self.members

    async def looked(self, times: int) -> None:
        """Wait until so many looks were taken."""
        while self._looks < times:  # noqa: ASYNC110 - the look is in a loop of its own
            await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def played(monkeypatch: pytest.MonkeyPatch) -> PlayedSessions:
    sessions = PlayedSessions()
    monkeypatch.setattr(procfs, "rank_members", sessions.look)
    monkeypatch.setattr(procfs, "rank_pids", lambda *_: [])
    monkeypatch.setattr(os, "kill", lambda pid, number: sessions.sent.append((pid, number)))
    monkeypatch.setattr(rank_processes, "_LOOK_S", 0.0)
    return sessions


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(layout.ENV_STATE, str(tmp_path / "state"))
    (tmp_path / "state").mkdir()
    monkeypatch.setattr(rank_processes, "oom_kills", lambda: 0)
    return tmp_path


def job_of(pods: Sequence[int] = (1,), *command: str, **fields: Any) -> Contract:
    return contract(pods, command=command or ("bash", "run.sh"), **fields)


async def test_the_ranks_of_this_pod_are_started_where_the_code_is(state: Path) -> None:
    pod = Pod(job_of([1, 2], "python", "train.py", "--lr", "1", node_rank=1, platform={"codePath": str(state)}))
    children = await pod.start()
    assert [(child.name, child.argv, child.cwd, child.env["RANK"]) for child in children] == [
        ("rank 1", (sys.executable, "-u", "train.py", "--lr", "1"), str(state), "1"),
        ("rank 2", (sys.executable, "-u", "train.py", "--lr", "1"), str(state), "2"),
    ]
    assert pod.ranks.processes() == [(1, 0, 100), (2, 0, 101)]
    await pod.ranks.kill(0)


async def test_ranks_meet_past_the_proxy_of_their_job(state: Path) -> None:
    pod = Pod(job_of([1, 1]))
    pod.ranks._base_env["https_proxy"] = "http://proxy:3128"
    (child,) = await pod.start()
    assert child.env["no_proxy"] == child.env["NO_PROXY"] == "localhost,127.0.0.1,10.0.0.1,10.0.0.2"
    await pod.ranks.kill(0)


@pytest.mark.parametrize(
    ("process", "mode", "left"),
    [
        pytest.param(1, "command", False, id="a pod has a folder of its own"),
        pytest.param(77, "command", True, id="a launcher that is not process 1 has not"),
        pytest.param(1, "rayTrain", True, id="Ray's workers have theirs there"),
    ],
)
async def test_ranks_that_start_again_find_no_shared_memory_of_those_that_were_killed(
    state: Path, monkeypatch: pytest.MonkeyPatch, process: int, mode: str, left: bool
) -> None:
    monkeypatch.setattr(os, "getpid", lambda: process)
    pod = Pod(job_of(mode=mode))
    pod.ranks._shared_memory = SharedMemory(state)
    for generation in range(2):
        await pod.start(generation)
        (state / "000000_locals").touch()
    await pod.start(2)
    assert (state / "000000_locals").exists() is left
    await pod.ranks.kill(2)


async def test_limits_of_memory_belong_to_the_rank_that_was_granted_them() -> None:
    pod = Pod(job_of([2]), limits={1: {"COTENANT_LIMITS": "of grant 1"}})
    children = await pod.start()
    assert [child.env.get("COTENANT_LIMITS") for child in children] == [None, "of grant 1"]
    await pod.ranks.kill(0)


@pytest.mark.parametrize(("framework", "told"), [("horovod", True), ("pytorch", False)])
async def test_only_a_program_with_horovod_is_told_its_place_in_horovods_words(framework: str, told: bool) -> None:
    """Lightning 1 takes HOROVOD_RANK for the wish to train by Horovod."""
    [child] = await Pod(job_of((1,), framework=framework)).start()
    place = {"HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_CROSS_SIZE", "HOROVOD_HOSTNAME"}
    assert place & set(child.env) == (place if told else set())
    assert child.env["HOROVOD_CONTROLLER"] == "gloo"


async def test_the_driver_of_ray_train_has_no_rank_and_finds_ray() -> None:
    pod = Pod(job_of([1], mode="rayTrain"), train_driver_env={"RAY_ADDRESS": "10.0.0.1:6379"})
    [child] = await pod.start()
    found = {name: child.env.get(name) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "RAY_ADDRESS")}
    assert found == {"RANK": None, "WORLD_SIZE": None, "LOCAL_RANK": None, "RAY_ADDRESS": "10.0.0.1:6379"}
    await pod.ranks.kill(0)


@pytest.mark.parametrize(
    ("status", "kills", "want"),
    [
        pytest.param(0, 0, RankExit(0, 4, 0, None, 0.0, tail=("last line",)), id="success"),
        pytest.param(3, 0, RankExit(0, 4, 3, None, 0.0, tail=("last line",)), id="a code"),
        pytest.param(-9, 1, RankExit(0, 4, None, 9, 0.0, oom=True, tail=("last line",)), id="killed for memory"),
        pytest.param(-11, 0, RankExit(0, 4, None, 11, 0.0, gpus_lost=True, tail=("last line",)), id="a signal"),
    ],
)
async def test_the_end_of_a_rank_is_recorded_with_its_last_lines(
    monkeypatch: pytest.MonkeyPatch, status: int, kills: int, want: RankExit
) -> None:
    pod = Pod(job_of(), PlayedChildren(b"last line\n"))
    [child] = await pod.start(generation=4)
    monkeypatch.setattr(rank_processes, "oom_kills", lambda: kills)
    monkeypatch.setattr(rank_processes, "has_lost_gpus", lambda: want.gpus_lost)
    child.exit.set_result(status)
    assert await pod.ended() == [want]
    assert (pod.ranks.running, child.signals) == ({}, [(signal.SIGKILL, True)])


@pytest.mark.parametrize(
    ("command", "status", "want"),
    [
        pytest.param(("uv", "run", "train.py"), 137, (None, signal.SIGKILL), id="what a wrapper ran was killed"),
        pytest.param(("./run.sh",), 139, (None, signal.SIGSEGV), id="what a script ran crashed"),
        pytest.param(("bash", "run.sh"), 128, (128, None), id="no signal has the number 0"),
        pytest.param(("timeout", "--preserve-status", "1h", "python", "a.py"), 143, (143, None), id="a limit of time"),
        pytest.param(("bash", "run.sh"), 255, (255, None), id="a code beyond all signals"),
        pytest.param(("python", "train.py"), 137, (137, None), id="a code that Python was given"),
    ],
)
async def test_a_shell_passes_on_the_signal_that_ended_what_it_ran(
    command: tuple[str, ...], status: int, want: tuple[int | None, int | None]
) -> None:
    pod = Pod(job_of((1,), *command))
    [child] = await pod.start()
    child.exit.set_result(status)
    [ended] = await pod.ended()
    assert (ended.code, ended.signal) == want


@pytest.mark.parametrize(
    ("printed", "want"),
    [
        pytest.param(
            "run.sh: line 2: 7 Killed    python train.py", (None, signal.SIGKILL), id="its program was killed"
        ),
        pytest.param("run.sh: line 2: 7 Killed    timeout -s KILL 60 python train.py", (137, None), id="its own limit"),
        pytest.param("begins", (137, None), id="exit 137"),
    ],
)
async def test_a_shell_says_what_was_killed_and_else_137_is_a_code(
    printed: str, want: tuple[int | None, int | None]
) -> None:
    pod = Pod(job_of(), PlayedChildren(f"{printed}\n".encode()))
    [child] = await pod.start()
    child.exit.set_result(137)
    [ended] = await pod.ended()
    assert (ended.code, ended.signal) == want


@pytest.mark.parametrize(
    ("script", "itself"),
    [
        pytest.param("trap 'kill 0' EXIT; python train.py", True, id="its script does so"),
        pytest.param("python train.py", False, id="nobody here did"),
    ],
)
async def test_a_shell_that_ends_its_own_process_group_was_not_killed_from_outside(script: str, itself: bool) -> None:
    pod = Pod(job_of((1,), "bash", "-c", script), PlayedChildren(b"trained\n"))
    [child] = await pod.start()
    child.exit.set_result(-signal.SIGTERM)
    [ended] = await pod.ended()
    assert (ended.own_kill, len(ended.tail), first_cause([ended]).killed) == (itself, 1 + itself, not itself)


async def test_a_failed_program_that_does_not_leave_ends_by_its_own_error(state: Path) -> None:
    pod = Pod(job_of())
    [child] = await pod.start()
    folder = layout.errors_dir(0, 0)
    error = {"type": "ValueError", "message": "bad batch", "frame": "train.py:8", "time": time.time(), "started": 1.0}
    (folder / "100.json").write_text(json.dumps(error))
    assert pod.ranks.lingering() == []
    (folder / "100.returned").write_text(json.dumps({"threads": ["monitor"]}))
    [found] = pod.ranks.lingering()
    assert (found.rank, found.threads, found.error and found.error.type) == (0, ("monitor",), "ValueError")
    pod.ranks.end_lingering(0, 1, force=False)
    pod.ranks.end_lingering(0, 1, force=True)
    assert child.signals == [(signal.SIGTERM, False), (signal.SIGKILL, True)]
    [ended] = await pod.ended()
    assert (ended.code, ended.signal, ended.error and ended.error.message) == (1, None, "bad batch")


@pytest.mark.parametrize("code", [0, 3])
async def test_a_program_that_is_through_and_does_not_leave_ends_with_its_own_code(code: int) -> None:
    pod = Pod(job_of())
    [child] = await pod.start()
    (layout.errors_dir(0, 0) / "100.returned").write_text(json.dumps({"threads": ["monitor"], "code": code}))
    [found] = pod.ranks.lingering()
    pod.ranks.end_lingering(0, found.code, force=False)
    child.exit.set_result(-signal.SIGTERM)
    [ended] = await pod.ended()
    assert (ended.code, ended.signal, ended.failed) == (code, None, code != 0)


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("status", "looks", "want"),
    [
        pytest.param(0, [["copy a b"], ["copy a b"]], ("copy a b",), id="a copy in the background"),
        pytest.param(0, [["tracker"], []], (), id="one that ends by itself"),
        pytest.param(0, [["x" * 300] * 9] * 2, ("x" * 100,) * 4, id="no more than fits"),
        pytest.param(1, [], (), id="a failure is explained by itself"),
    ],
)
async def test_processes_that_a_rank_leaves_behind_are_named(
    monkeypatch: pytest.MonkeyPatch, status: int, looks: list[list[str]], want: tuple[str, ...]
) -> None:
    pod = Pod(job_of())
    [child] = await pod.start()
    found = iter(looks)
    monkeypatch.setattr(procfs, "rank_pids", lambda *_: range(len(next(found, []))))
    monkeypatch.setattr(procfs, "command_line", lambda pid: looks[-1][pid])
    child.exit.set_result(status)
    [ended] = await pod.ended()
    assert (ended.left_behind, child.signals) == (want, [(signal.SIGKILL, True)])


async def test_collectives_that_a_rank_had_entered_are_part_of_its_end() -> None:
    pod = Pod(job_of())
    [child] = await pod.start()
    pod.ranks.running[0].counters.set("sequence", 17)
    child.exit.set_result(1)
    assert await pod.ended() == [RankExit(0, 0, 1, None, 0.0, sequence=17)]


@pytest.mark.parametrize(
    ("refusal", "code", "text"),
    [
        (FileNotFoundError(2, "No such file or directory"), 127, "cannot run 'bash run.sh': No such file or directory"),
        (
            PermissionError(13, "Permission denied"),
            126,
            "cannot run 'bash run.sh': Permission denied; is it executable? A file of a ConfigMap is not:"
            " name its interpreter first, as in [bash, run.sh]",
        ),
        (OSError(8, "Exec format error"), 126, "cannot run 'bash run.sh': Exec format error"),
    ],
)
async def test_a_program_that_cannot_be_started_ends_as_in_a_shell(
    capsys: pytest.CaptureFixture[str], refusal: OSError, code: int, text: str
) -> None:
    pod = Pod(job_of(), PlayedChildren(refusal=refusal))
    assert await pod.start() == []
    assert await pod.ended() == [RankExit(0, 0, code, None, 0.0, tail=(text,))]
    assert capsys.readouterr().err == f"cotenant: {text}\n"


async def test_a_command_in_one_string_is_told_how_to_write_it() -> None:
    """kubernetes/kubernetes#3575."""
    pod = Pod(job_of([1], "python train.py"), PlayedChildren(refusal=FileNotFoundError(2, "No such file or directory")))
    await pod.start()
    [ended] = await pod.ended()
    assert ended.tail == (
        "cannot run 'python train.py': No such file or directory; write the words as a list: [python, train.py]",
    )


async def test_a_long_command_that_cannot_be_started_is_shortened() -> None:
    pod = Pod(job_of([1], "x" * 300), PlayedChildren(refusal=FileNotFoundError(2, "No such file or directory")))
    await pod.start()
    [ended] = await pod.ended()
    assert ended.tail == (f"cannot run '{'x' * 200} …': No such file or directory",)


async def test_a_start_kills_the_generation_before() -> None:
    pod = Pod(job_of())
    [old] = await pod.start(generation=1)
    [new] = await pod.start(generation=2)
    assert (old.signals[0], new.signals) == ((signal.SIGKILL, False), [])
    assert pod.ranks.processes() == [(0, 2, 101)]
    new.exit.set_result(0)
    assert await pod.ended() == [
        RankExit(0, 1, None, 9, 0.0, stopped=True),
        RankExit(0, 2, 0, None, 0.0),
    ]


async def test_ranks_of_a_generation_that_is_over_are_killed_as_they_start() -> None:
    pod = Pod(job_of())
    await pod.ranks.kill(3)
    [late] = await pod.start(generation=3)
    assert late.signals[0] == (signal.SIGKILL, False)
    assert await pod.ended() == [RankExit(0, 3, None, 9, 0.0, stopped=True)]


async def test_ranks_are_asked_to_leave_once_and_their_safe_points_are_counted(played: PlayedSessions) -> None:
    pod = Pod(job_of([2]))
    children = await pod.start()
    played.members = [Member(7, 1, "bash", "bash")]
    pod.ranks.running[1].counters.set("calls", 40)
    assert [pod.ranks.terminate(), pod.ranks.terminate()] == [{0: 0, 1: 40}] * 2
    await played.looked(4)
    assert (played.sent, [child.signals for child in children]) == ([(7, signal.SIGTERM)] * 2, [[], []])
    played.members = []
    for child in children:
        child.exit.set_result(-signal.SIGTERM)
    assert [(each.rank, each.signal) for each in await pod.ended()] == [(0, 15), (1, 15)]


async def test_a_rank_has_left_when_the_last_of_its_processes_has(played: PlayedSessions) -> None:
    pod = Pod(job_of())
    [child] = await pod.start()
    played.members = [Member(7, 1, "python", "python", heeds=True)]
    pod.ranks.terminate()
    child.exit.set_result(-signal.SIGTERM)
    await played.looked(4)
    assert (pod.exits, list(pod.ranks.running)) == ([], [0])
    await pod.ranks.kill(0)
    await played.looked(6)
    assert played.sent[-1] == (7, signal.SIGKILL)
    played.members = []
    assert [each.stopped for each in await pod.ended()] == [True]


async def test_a_rank_that_has_only_just_been_forked_is_asked_itself() -> None:
    pod = Pod(job_of())
    [child] = await pod.start()
    pod.ranks.terminate()
    await asyncio.wait([run.departure for run in pod.ranks.running.values() if run.departure])
    assert child.signals == [(signal.SIGTERM, False)]
    await pod.ranks.kill(0)


@pytest.mark.parametrize(("count", "stop_at"), [(42, 42), (0, 1)])
async def test_every_rank_gets_the_safe_point_to_stop_at_which_0_is_not(count: int, stop_at: int) -> None:
    pod = Pod(job_of([2]))
    await pod.start()
    pod.ranks.set_stop_call(count)
    assert [run.counters.get("stop_at") for run in pod.ranks.running.values()] == [stop_at] * 2
    await pod.ranks.kill(0)
