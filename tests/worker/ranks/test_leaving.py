"""Which processes of a departing rank get SIGTERM: as a table, and with real commands behind wrappers."""

from __future__ import annotations

import shutil
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cotenant.contract import CheckpointSpec, Contract
from cotenant_worker.host.procfs import Member
from cotenant_worker.ranks.leaving import LOADER_WORKER, MOMENT_S, Departure, whom_to_ask
from tests.support.pod_sandbox import contract, until
from tests.worker.processes import launched


def bash(pid: int, parent: int, *, trap: bool = False, ignores: bool = False) -> Member:
    return Member(pid, parent, "run.sh", "bash", heeds=trap, ignores=ignores)


def saver(pid: int, parent: int, *, behind: bool = False) -> Member:
    return Member(pid, parent, "python", "python3.11", heeds=True, in_background=behind)


def runs(script: str, pid: int, parent: int) -> Member:
    return Member(pid, parent, "python", "python3.11", script, heeds=True)


def plain(pid: int, parent: int, name: str = "python", *, ignores: bool = False) -> Member:
    return Member(pid, parent, name, name, ignores=ignores)


def loader(pid: int, parent: int) -> Member:
    return Member(pid, parent, LOADER_WORKER, "python3.11", heeds=True)


def helper(pid: int, parent: int) -> Member:
    return Member(pid, parent, "Xvfb", "Xvfb", heeds=True)


def carrier(name: str) -> Member:
    return Member(10, 1, name, name, heeds=True)


TIMEOUT, TINI, DUMB_INIT, SCRIPT = map(carrier, ("timeout", "tini", "dumb-init", "script"))
PARALLEL = Member(10, 1, "parallel", "perl", heeds=True)
MPIRUN = carrier("mpirun")
UV = Member(11, 10, "uv", "uv", heeds=True)
DEEPSPEED = Member(10, 1, "python", "python3.11", "deepspeed.launcher.launch", heeds=True)


@pytest.mark.parametrize(
    ("members", "asked"),
    [
        pytest.param([saver(10, 1)], [10], id="a program that heeds SIGTERM"),
        pytest.param([plain(10, 1)], [10], id="a program that does not"),
        pytest.param([saver(10, 1), loader(11, 10)], [10], id="loader workers are their program's"),
        pytest.param([plain(10, 1), loader(11, 10)], [10], id="also of a program without a handler"),
        pytest.param([bash(10, 1), saver(11, 10)], [10, 11], id="a shell passes nothing on"),
        pytest.param([bash(10, 1), plain(11, 10)], [10, 11], id="nor to what heeds nothing"),
        pytest.param([bash(10, 1), bash(11, 10), saver(12, 11)], [10, 11, 12], id="a shell in a shell"),
        pytest.param([bash(10, 1, ignores=True), saver(11, 10)], [11], id="a shell that ignores it"),
        pytest.param([bash(10, 1, ignores=True), plain(11, 10)], [11], id="a shell that ignores it, nobody heeds"),
        pytest.param([bash(10, 1, trap=True), saver(11, 10, behind=True)], [10], id="a trap that waits runs at once"),
        pytest.param([bash(10, 1, trap=True), saver(11, 10)], [10, 11], id="a trap in the foreground does not"),
        pytest.param([bash(10, 1), saver(11, 10), plain(12, 10, "tee")], [10, 11], id="tee is spared while one saves"),
        pytest.param([plain(10, 1), saver(11, 10)], [11], id="a wrapper that would die of it is spared"),
        pytest.param([plain(10, 1), bash(11, 10), saver(12, 11)], [11, 12], id="as conda run does it"),
        pytest.param([saver(10, 1), saver(11, 10)], [10], id="a wrapper that heeds passes it on"),
        pytest.param([TIMEOUT, saver(11, 10)], [11], id="timeout would pass it on twice"),
        pytest.param([TIMEOUT, plain(11, 10)], [10], id="timeout, and nobody heeds"),
        pytest.param([TINI, bash(11, 10), saver(12, 11)], [11, 12], id="tini would tell the shell alone"),
        pytest.param([DUMB_INIT, saver(11, 10), loader(12, 11)], [11], id="dumb-init would tell loader workers too"),
        pytest.param([DUMB_INIT, bash(11, 10), saver(12, 11)], [12], id="dumb-init ends what a shell leaves behind"),
        pytest.param([DUMB_INIT, plain(11, 10)], [10], id="dumb-init, and nobody heeds"),
        pytest.param([SCRIPT, bash(11, 10), saver(12, 11)], [12], id="script would hang up on its terminal"),
        pytest.param([SCRIPT, bash(11, 10), plain(12, 11)], [10], id="a terminal on which nobody heeds"),
        pytest.param([plain(10, 1, "xargs"), saver(11, 10), saver(12, 10)], [10, 11, 12], id="xargs, and what it runs"),
        pytest.param([PARALLEL, saver(11, 10), saver(12, 10)], [10, 11, 12], id="GNU parallel is held"),
        pytest.param([MPIRUN, saver(11, 10), saver(12, 10)], [11, 12], id="mpirun would kill at once"),
        pytest.param([MPIRUN, plain(11, 10)], [10], id="mpirun, and nobody heeds"),
        pytest.param([DEEPSPEED, saver(11, 10), loader(12, 11)], [11], id="deepspeed would tell loader workers too"),
        pytest.param([plain(10, 1, ignores=True), plain(11, 10)], [11], id="what is below one that ignores it"),
        pytest.param([plain(10, 1, ignores=True)], [], id="one that ignores it"),
        pytest.param([saver(12, 1), plain(13, 1, "tail")], [12, 13], id="orphans are first processes"),
        pytest.param([loader(12, 1)], [12], id="a loader worker without a program too"),
        pytest.param([bash(10, 1), helper(11, 10), saver(12, 10)], [10, 12], id="a helper stays for who saves"),
        pytest.param([helper(11, 1), saver(12, 1)], [12], id="also when its script has gone"),
        pytest.param([bash(10, 1), helper(11, 10), plain(12, 10)], [10, 11], id="a helper of one that heeds none"),
        pytest.param([helper(11, 1)], [11], id="a helper whose program has left"),
        pytest.param([bash(10, 1), UV, saver(12, 11), saver(13, 10)], [10, 11, 13], id="a wrapper is no helper"),
    ],
)
def test_those_are_asked_that_can_save(members: list[Member], asked: list[int]) -> None:
    assert [each.pid for each in whom_to_ask(members)] == asked


TRL, TRAIN_BESIDE = runs("trl", 11, 10), runs("train.py", 12, 10)


def behind(program: Member) -> Member:
    return replace(program, in_background=True)


@pytest.mark.parametrize(
    ("members", "trainer", "asked"),
    [
        pytest.param([TRL, TRAIN_BESIDE], 12, [10, 12], id="a server stays for the program that trains"),
        pytest.param([UV, runs("train.py", 13, 11), runs("trl", 12, 10)], 13, [10, 11], id="behind a wrapper"),
        pytest.param([runs("train.py", 11, 10), TRAIN_BESIDE], 12, [10, 11, 12], id="programs that train together"),
        pytest.param([TRL, TRAIN_BESIDE], 0, [10, 11, 12], id="none has made a step"),
        pytest.param([behind(TRL), TRAIN_BESIDE], 0, [10, 12], id="none has made a step, and one is in the background"),
        pytest.param([behind(TRL), behind(TRAIN_BESIDE)], 0, [10, 11, 12], id="all are in the background"),
        pytest.param([TRL, TRAIN_BESIDE], 99, [10, 11, 12], id="the one that trained has left"),
        pytest.param([TRL, plain(12, 10)], 12, [10, 11], id="a program that heeds nothing"),
        pytest.param([plain(20, 10), runs("trl", 21, 20), runs("train.py", 22, 20)], 22, [10, 22], id="of one wrapper"),
    ],
)
def test_a_program_beside_the_one_that_trains_is_asked_later(
    members: list[Member], trainer: int, asked: list[int]
) -> None:
    assert [each.pid for each in whom_to_ask([bash(10, 1), *members], trainer)] == asked


def test_each_is_asked_once_and_what_heeds_nothing_when_the_savers_have_gone() -> None:
    departure = Departure()
    shell, trains, tee = bash(10, 1), saver(11, 10), plain(12, 10, "tee")
    orphans = [replace(trains, parent=1), replace(tee, parent=1)]
    assert departure.due([shell, trains, tee], 0.0) == [10, 11]
    assert departure.due(orphans, 0.1) == []
    assert departure.due(orphans, 20.0) == []
    assert departure.due(orphans[1:], 20.1) == []
    assert departure.due(orphans[1:], 20.0 + MOMENT_S) == [12]
    assert departure.due(orphans[1:], 30.0) == []


def test_a_server_is_asked_when_its_program_has_left_or_half_of_the_time_has_passed() -> None:
    shell, server, trains = bash(10, 1), runs("trl", 11, 10), runs("train.py", 12, 10)
    departure = Departure(patience_s=30.0)
    assert departure.due([shell, server, trains], 100.0, trainer=12) == [10, 12]
    assert departure.due([replace(server, parent=1)], 120.0, trainer=12) == [11]
    departure = Departure(patience_s=30.0)
    assert departure.due([shell, server, trains], 100.0, trainer=12) == [10, 12]
    assert departure.due([shell, server, trains], 129.0, trainer=12) == []
    assert departure.due([shell, server, trains], 130.0, trainer=12) == [11]


def test_a_shell_with_a_trap_for_its_exit_is_held_until_the_program_in_its_foreground_has_left() -> None:
    shell, server, trains = (
        replace(bash(10, 1, trap=True), exit_trap=True),
        behind(runs("server.py", 11, 10)),
        TRAIN_BESIDE,
    )
    departure = Departure()
    assert departure.signals([shell, server, trains], 0.0) == [(12, signal.SIGTERM), (10, signal.SIGSTOP)]
    assert departure.signals([shell, server, trains], 9.0) == []
    assert departure.signals([shell, server], 9.1) == [(10, signal.SIGTERM), (10, signal.SIGCONT)]


GO_TASK, NOX = Member(10, 1, "task", "task"), replace(runs("nox", 10, 1), heeds=False)
TRAINS = runs("train.py", 12, 10)


def test_a_runner_of_tasks_is_held_and_cannot_start_the_next_one() -> None:
    departure = Departure()
    assert departure.signals([NOX, TRAINS], 0.0) == [(12, signal.SIGTERM), (10, signal.SIGSTOP)]
    assert departure.signals([NOX], 9.0) == [(10, signal.SIGTERM), (10, signal.SIGCONT)]
    departure = Departure()
    assert departure.signals([GO_TASK, TRAINS], 0.0) == [(12, signal.SIGTERM), (10, signal.SIGSTOP)]
    assert departure.signals([GO_TASK], 9.0) == [(10, signal.SIGKILL), (10, signal.SIGCONT)]
    assert Departure().signals([GO_TASK, plain(12, 10)], 0.0) == [(10, signal.SIGTERM), (12, signal.SIGTERM)]


def test_a_runner_through_which_a_program_prints_stays_until_that_has_left() -> None:
    departure, runner = Departure(), replace(runs("inv", 10, 1), heeds=False)
    assert departure.signals([runner, TRAINS], 0.0) == [(12, signal.SIGTERM)]
    assert departure.signals([runner, replace(TRAINS, parent=1)], 1.0) == []
    assert departure.signals([runner], 9.0) == [(10, signal.SIGTERM)]
    for name in ("honcho", "poe", "supervisord"):
        assert Departure().signals([runs(name, 10, 1), TRAINS], 0.0) == [(12, signal.SIGTERM)]


@pytest.mark.parametrize("name", ["honcho", "supervisord"])
def test_a_shell_whose_end_would_end_the_program_is_spared_with_all_beside_it(name: str) -> None:
    keeper, of_train, of_web = runs(name, 10, 1), bash(11, 10), bash(13, 10)
    assert whom_to_ask([keeper, of_train, saver(12, 11), of_web, plain(14, 13, "sleep")]) == [saver(12, 11)]
    assert whom_to_ask([keeper, of_web, plain(14, 13, "sleep")]) == [keeper]


@pytest.mark.parametrize(
    "beside",
    [
        pytest.param([behind(TRAIN_BESIDE)], id="its program is in the background: the trap passes the signal on"),
        pytest.param([plain(12, 10)], id="its program heeds nothing"),
        pytest.param([], id="its program has left"),
    ],
)
def test_a_shell_with_a_trap_for_its_exit_is_asked_at_once_if(beside: list[Member]) -> None:
    shell = replace(bash(10, 1, trap=True), exit_trap=True)
    departure = Departure()
    assert (departure.due([shell, *beside], 0.0)[:1], departure.held) == ([10], set())


def test_a_program_that_a_wrapper_starts_meanwhile_is_asked_too() -> None:
    departure = Departure()
    assert departure.due([plain(10, 1), saver(11, 10)], 0.0) == [11]
    assert departure.due([plain(10, 1), saver(12, 10)], 1.0) == [12]


def test_a_wrapper_that_starts_its_program_again_is_asked_when_it_does() -> None:
    """`while subprocess.call(command): ...`: a program that has saved may leave with 143."""
    wrapper = replace(runs("retry.py", 10, 1), heeds=False)
    departure = Departure()
    assert departure.due([wrapper, runs("train.py", 11, 10)], 0.0) == [11]
    assert departure.due([wrapper], 1.0) == []
    assert departure.due([wrapper, runs("upload.py", 12, 10)], 1.1) == [12]
    assert departure.due([wrapper, runs("train.py", 13, 10)], 1.2) == [13, 10]
    departure, two = Departure(), [runs("train.py", 11, 10), runs("train.py", 12, 10)]
    assert departure.due([wrapper, *two], 0.0) == [11, 12]
    assert departure.due([wrapper, two[1]], 1.0) == []  # it is still saving
    submitit = runs("submitit.local._local", 10, 1)
    departure = Departure()
    assert departure.due([submitit, runs("submitit.core._submit", 11, 10)], 0.0) == [11]
    assert departure.due([submitit, runs("submitit.core._submit", 12, 10)], 1.0) == [12, 10]
    trains, helper = runs("train.py", 10, 1), runs("render.py", 12, 10)
    assert Departure(_programs={11: replace(helper, pid=11)}).due([trains, helper], 1.0) == [10]


def test_a_profiler_writes_when_its_program_has_ended_and_is_asked_if_nobody_heeds() -> None:
    departure = Departure()
    nsys, trains = Member(10, 1, "nsys", "nsys", heeds=True), saver(11, 10)
    assert departure.due([nsys, trains], 0.0) == [11]
    assert departure.due([nsys], 60.0) == []
    assert Departure().due([nsys, plain(11, 10)], 0.0) == [10]


def test_a_process_that_learns_of_it_without_a_signal_gets_none_and_has_its_time() -> None:
    departure = Departure()
    wrapper, trains = plain(10, 1), plain(11, 10)
    assert departure.due([wrapper, trains], 0.0, listener=11) == []
    assert departure.due([wrapper, trains], 20.0, listener=11) == []
    assert departure.due([wrapper], 20.1, listener=11) == []
    assert departure.due([wrapper], 20.0 + MOMENT_S, listener=11) == [10]


TRAIN = """
import os, signal, sys, time
leaving = []
signal.signal(signal.SIGTERM, lambda *_: leaving.append(1))
open("ready", "w").close()
while not leaving:
    time.sleep(0.02)
time.sleep(float(os.environ.get("SAVES_FOR", "0.5")))
print("saving", flush=True)
if len(leaving) == 1:
    open(os.environ["COTENANT_CHECKPOINT_DIR"] + "/model.pt", "w").write("x")
"""
WRAPPER = "import subprocess, sys\nsys.exit(subprocess.run([sys.executable, 'train.py']).returncode)\n"
APART = WRAPPER.replace("])", "], start_new_session=True)")
PASSES_ON = """
import signal, subprocess, sys
child = subprocess.Popen([sys.executable, "train.py"])
signal.signal(signal.SIGTERM, lambda *_: child.send_signal(signal.SIGTERM))
sys.exit(child.wait())
"""
SPAWNS = """
import multiprocessing, runpy
if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=runpy.run_path, args=("train.py",))
    child.start()
    child.join()
"""
FORKED_HELPERS = """
import multiprocessing, runpy, time
for _ in range(2):
    multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,), daemon=True).start()
runpy.run_path("train.py")
"""
IN_A_THREAD = """
import os, threading, time
from cotenant_worker import should_stop
def train():
    while not should_stop():
        open("ready", "w").close()
        time.sleep(0.02)
    time.sleep(0.5)
    print("saving", flush=True)
    open(os.environ["COTENANT_CHECKPOINT_DIR"] + "/model.pt", "w").write("x")
thread = threading.Thread(target=train)
thread.start()
thread.join()
"""
PER_GPU = """
import os, subprocess, sys
gpus = [dict(os.environ, CUDA_VISIBLE_DEVICES=str(gpu)) for gpu in range(2)]
commands = [[sys.executable, "train.py"], ["sleep", "600"]]
children = [subprocess.Popen(command, env=env) for command, env in zip(commands, gpus)]
sys.exit(max(abs(child.wait()) for child in children))
"""
NEEDS_A_HELPER = """
import os, runpy
runpy.run_path("train.py")
os.kill(int(open("helper").read()), 0)  # it still runs
print("helped", flush=True)
"""
WITH_A_HELPER = "perl -e '$SIG{TERM} = sub { exit }; sleep 600' & echo $! > helper; python needs.py; true"
NEEDS_A_SERVER = """
import pathlib, runpy, time
from cotenant_shim.steps import step_counter
while not pathlib.Path("serves").exists():
    time.sleep(0.02)
step_counter.add("an optimizer")
runpy.run_path("train.py")
print("served" if pathlib.Path("serves").exists() else "the server has gone", flush=True)
"""
SERVES = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (os.unlink("serves"), sys.exit(0)))
open("serves", "w").close()
time.sleep(600)
"""
UNCOUNTED = NEEDS_A_SERVER.replace('step_counter.add("an optimizer")', "")
WITH_A_SERVER = "nohup python server.py & server=$!; nohup python needs_server.py & wait $!; kill $server; wait"
WITH_A_TRAP = "trap 'kill $server' EXIT; python server.py & server=$!; python uncounted.py | tee log; echo and on"
POOL = """
import concurrent.futures, runpy
with concurrent.futures.ProcessPoolExecutor(2) as pool:
    list(pool.map(abs, range(4)))
    runpy.run_path("train.py")
"""
SUPERVISORD = """
[supervisord]
nodaemon = true
logfile = /dev/null
logfile_maxbytes = 0
pidfile = supervisord.pid
[program:train]
command = python train.py
environment = SAVES_FOR="12"
stdout_logfile = /dev/stdout
stdout_logfile_maxbytes = 0
[program:web]
command = sleep 600
"""
MAKEFILE = "train:\n\tcd . && python train.py\n\techo and on\n"
FILES = {"train.py": TRAIN, "wrapper.py": WRAPPER, "passes_on.py": PASSES_ON, "spawns.py": SPAWNS}
FILES |= {"helpers.py": FORKED_HELPERS, "apart.py": APART, "run.sh": "python train.py\necho and on\n"}
FILES |= {"needs.py": NEEDS_A_HELPER, "helped.sh": WITH_A_HELPER}
FILES |= {"server.py": SERVES, "needs_server.py": NEEDS_A_SERVER, "served.sh": WITH_A_SERVER}
FILES |= {"uncounted.py": UNCOUNTED, "trap.sh": WITH_A_TRAP, "uncounted.sh": WITH_A_TRAP.partition("; ")[2]}
FILES |= {"Procfile": "train: SAVES_FOR=7 python train.py\nweb: sleep 600\n", "supervisord.conf": SUPERVISORD}
FILES |= {"per_gpu.py": PER_GPU, "pool.py": POOL, "Makefile": MAKEFILE, "threaded.py": IN_A_THREAD}


def job_of(tmp_path: Path, *command: str) -> Contract:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    spec = CheckpointSpec(str(tmp_path / "checkpoints"))
    return contract([1], command=command, grace_s=60, checkpoint=spec, platform={"codePath": str(tmp_path)})


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("python", "train.py"), id="the program itself"),
        pytest.param(("bash", "run.sh"), id="bash run.sh"),
        pytest.param(("bash", "-c", "exec python train.py"), id="a shell that becomes it"),
        pytest.param(("sh", "-c", "cd . && python train.py"), id="sh -c, after another command"),
        pytest.param(("bash", "-c", "trap 'echo bye' TERM; python train.py"), id="a trap in the foreground"),
        pytest.param(
            ("bash", "-c", "trap 'kill -TERM $!' TERM; python train.py & wait; wait"), id="a trap that passes it on"
        ),
        pytest.param(("bash", "-c", "python train.py 2>&1 | tee log"), id="a pipe into tee"),
        pytest.param(("bash", "-c", "nohup python train.py & wait"), id="nohup in the background"),
        pytest.param(("timeout", "600", "python", "train.py"), id="a limit of time"),
        pytest.param(("python", "wrapper.py"), id="a wrapper that waits"),
        pytest.param(("python", "apart.py"), id="a wrapper that gives it a session of its own"),
        pytest.param(("setsid", "--wait", "python", "train.py"), id="setsid"),
        pytest.param(("python", "passes_on.py"), id="a wrapper that passes it on"),
        pytest.param(("bash", "-c", "python wrapper.py; true"), id="a wrapper in a shell"),
        pytest.param((sys.executable, "-m", "uv", "run", "--no-project", "python", "train.py"), id="uv run"),
        pytest.param(("python", "spawns.py"), id="a spawned process"),
        pytest.param(("python", "helpers.py"), id="forked helpers of its own"),
        pytest.param(("python", "pool.py"), id="a pool of processes"),
        pytest.param(("python", "per_gpu.py"), id="a process for each GPU"),
        pytest.param(("python", "threaded.py"), id="should_stop() in a thread"),
        pytest.param(("mpirun", "--allow-run-as-root", "-np", "1", "python", "train.py"), id="mpirun"),
        pytest.param(
            ("bash", "-c", "python - <<'END'\nimport runpy\nrunpy.run_path('train.py')\nEND"), id="a document"
        ),
        pytest.param(
            ("bash", "-c", "set -euo pipefail; trap 'echo bye' EXIT; python train.py | cat"), id="a trap at the exit"
        ),
        pytest.param(("make", "train"), id="make"),
        pytest.param(("xargs", "-a", "Makefile", "-n1", "python", "train.py"), id="xargs"),
        pytest.param(("script", "-qec", "cd . && python train.py", "/dev/null"), id="a terminal"),
        pytest.param(("stdbuf", "-oL", "nice", "taskset", "-c", "0", "python", "train.py"), id="stdbuf, nice, taskset"),
        pytest.param(("perf", "record", "-q", "-o", "/dev/null", "python", "train.py"), id="perf"),
        pytest.param(("strace", "-f", "-o", "/dev/null", "python", "train.py"), id="strace"),
        pytest.param(("numactl", "--interleave=all", "python", "train.py"), id="numactl"),
        pytest.param(("flock", "lock", "python", "train.py"), id="flock"),
        pytest.param(("tini", "--", "bash", "run.sh"), id="tini"),
        pytest.param(("dumb-init", "bash", "-c", "cd . ; python train.py; :"), id="dumb-init"),
        pytest.param(("honcho", "start"), id="honcho, which kills after 5 s"),
        pytest.param(("supervisord", "-c", "supervisord.conf"), id="supervisord, which kills after 10 s"),
        pytest.param(("parallel", "-u", "-j1", "python", "train.py", ":::", "1", "2"), id="GNU parallel"),
    ],
)
def test_a_program_saves_once_whatever_is_in_between(tmp_path: Path, command: tuple[str, ...]) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    job = job_of(tmp_path, *command)
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    with launched(tmp_path, job.to_json(), PATH=path) as pod:
        until((tmp_path / "ready").exists, 60, "the program")
        pod.process.send_signal(signal.SIGTERM)
        code, log, termination = pod.finish()
    assert (code, termination.reason, "had to be killed" in termination.message) == (143, "Preempted", False), log
    assert (tmp_path / "checkpoints" / "model.pt").exists(), log
    assert log.count("saving") == 1, log
    assert "and on" not in log


@pytest.mark.skipif(shutil.which("perl") is None, reason="perl is not installed")
def test_what_a_run_script_started_for_its_program_stays_until_that_has_saved(tmp_path: Path) -> None:
    """The program may need it while it saves, as an X server or a Redis."""
    job = job_of(tmp_path, "bash", "helped.sh")
    with launched(tmp_path, job.to_json(), PATH=f"{Path(sys.executable).parent}:/usr/bin:/bin") as pod:
        until((tmp_path / "ready").exists, 60, "the program")
        pod.process.send_signal(signal.SIGTERM)
        code, log, _ = pod.finish()
    assert (code, "helped" in log) == (143, True), log


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("served.sh", id="both in the background"),
        pytest.param("uncounted.sh", id="the program has made no step that is counted"),
        pytest.param("trap.sh", id="the script ends the server by a trap for its exit"),
    ],
)
def test_a_server_of_pythons_stays_until_the_program_that_it_serves_has_saved(tmp_path: Path, script: str) -> None:
    """TRL's GRPO generates its samples by a vLLM that the run script has started in the background."""
    job = job_of(tmp_path, "bash", script)
    with launched(tmp_path, job.to_json(), PATH=f"{Path(sys.executable).parent}:/usr/bin:/bin") as pod:
        until((tmp_path / "ready").exists, 60, "the program")
        pod.process.send_signal(signal.SIGTERM)
        code, log, _ = pod.finish()
    assert (code, "served" in log, (tmp_path / "serves").exists()) == (143, True, False), log
    assert "and on" not in log
