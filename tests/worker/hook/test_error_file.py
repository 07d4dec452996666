"""What a rank's processes record of the exception that ends them, and what the launcher makes of it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cotenant_worker.host import layout
from cotenant_worker.ranks.error_files import environment_for_errors, error_of, killed_itself, lingering
from cotenant_worker.supervision.failure_cause import RankExit, first_cause
from cotenant_worker.supervision.messages import MESSAGES, RankExited

FAILS = "def load():\n    raise ValueError('empty')\n"


def rank_env(state: Path, code: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": f"{code}:{layout.HOOK_DIR}",
        "COTENANT_STATE_DIR": str(state),
        "COTENANT_RESTART": "2",
        **{"RANK": "1", "COTENANT_RANK": "1", "WORLD_SIZE": "2"},
    }


def ended(directory: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]) -> RankExit:
    """The launcher's record of the end of a rank that ran `command` in `directory`."""
    state = directory / "state"
    monkeypatch.setenv("COTENANT_STATE_DIR", str(state))
    environment = environment_for_errors(1, 2)
    process = subprocess.Popen(
        command,
        cwd=directory,
        env=rank_env(state, directory) | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    output, _ = process.communicate(timeout=60)
    status = process.returncode
    code, number = (status, None) if status >= 0 else (None, -status)
    error = error_of(1, 2, process.pid)
    exit_ = RankExit(1, 2, code, number, 0.0, tail=tuple(output.splitlines()), home=(str(directory),), error=error)
    assert MESSAGES.decode(MESSAGES.encode(RankExited(exit_, 0.0))) == RankExited(exit_, 0.0)
    return exit_


def program(directory: Path, text: str, name: str = "train.py") -> list[str]:
    (directory / name).write_text(text)
    return [sys.executable, name]


NOISE = "import atexit, sys; atexit.register(lambda: print('cleaned up after 3 tries', file=sys.stderr))\n"
OWN_HOOK = "import sys; sys.excepthook = lambda *error: sys.__excepthook__(*error)\n"
PARENT = "import subprocess, sys\nsubprocess.run([sys.executable, 'child.py'], check=True)\n"
CHILDREN = f"""
import multiprocessing, sys
{FAILS}
if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=load)
    child.start()
    child.join()
    sys.exit(child.exitcode)
"""
POOL = f"""
import multiprocessing
{FAILS}
def work(_):
    load()
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        pool.map(work, [1])
"""
WORKER = """
class Shard:
    pass
raise RuntimeError('''Caught ValueError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "/usr/lib/python3.11/site-packages/torch/worker.py", line 309, in _worker_loop
    data = fetcher.fetch(index)
  File "data.py", line 3, in __getitem__
    raise ValueError(index)
ValueError: shard 7''')
"""
SHOWN = f"""
import sys, traceback
{FAILS}
try:
    load()
except Exception:
    traceback.print_exc()
    print("Set FULL_ERROR=1 for more.", file=sys.stderr)
    sys.exit(1)
"""
EXPLAINED = """
import sys
try:
    import nothing_of_this_name
except ImportError:
    sys.exit("install the extra 'all'")
"""
WENT_ON = f"""
import sys
{FAILS}
try:
    try:
        1 / 0
    except ZeroDivisionError:
        sys.exit(3)
except SystemExit:
    load()
"""
LONG = "raise ValueError('first line\\n' + 'second ' * 100000)\n"
OWN_TYPE = """class Broken(RuntimeError): pass
try:
    1 / 0
except ZeroDivisionError as error:
    raise Broken from error
"""


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(FAILS + "load()", "ValueError: empty (train.py:2, in load)", id="a traceback"),
        pytest.param(NOISE + FAILS + "load()", "ValueError: empty (train.py:3, in load)", id="lines after it"),
        pytest.param(OWN_HOOK + FAILS + "load()", "ValueError: empty (train.py:3, in load)", id="a hook of its own"),
        pytest.param("import json\njson.loads('[')", "json.decoder.JSONDecodeError: Expecting value: line 1 column 2"
                     " (char 1) (train.py:2)", id="raised inside a library"),
        pytest.param("for i in range(3)\n", "SyntaxError: expected ':' (train.py:1)", id="syntax"),
        pytest.param(OWN_TYPE, "Broken (train.py:5)", id="no message"),
        pytest.param(LONG, "ValueError: first line (train.py:1)", id="a long message"),
        pytest.param(WORKER, "ValueError: shard 7 (data.py:3, in __getitem__)", id="a worker's, passed on as text"),
        pytest.param(CHILDREN, "ValueError: empty (train.py:4, in load)", id="in a child that the parent looks after"),
        pytest.param(POOL, "ValueError: empty (train.py:10)", id="in a pool"),
        pytest.param("import sys\nsys.exit('no data')", "no data", id="no exception"),
        pytest.param(SHOWN, "ValueError: empty (train.py:4, in load)", id="shown by the program, which then leaves"),
        pytest.param(EXPLAINED, "install the extra 'all'", id="explained by the program in its last words"),
        pytest.param(WENT_ON, "ValueError: empty (train.py:4, in load)", id="after an end that was caught"),
    ],
)  # fmt: skip
def test_the_exception_that_ended_a_rank_and_its_frame_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, want: str
) -> None:
    cause = first_cause([ended(tmp_path, monkeypatch, program(tmp_path, text))])
    assert cause.message == f"rank 1 ended with 1: {want}"


def test_of_a_parent_and_its_child_the_first_failure_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, FAILS + "load()", "child.py")
    cause = first_cause([ended(tmp_path, monkeypatch, program(tmp_path, PARENT))])
    assert cause.message == "rank 1 ended with 1: ValueError: empty (child.py:2, in load)"


def test_a_shell_that_goes_on_after_a_failure_has_the_last_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = " ".join(program(tmp_path, FAILS + "load()"))
    for script, want in (
        (f"set -e; {command}", "ended with 1: ValueError: empty (train.py:2, in load)"),
        (f"{command} || echo gave up; exit 3", "ended with 3: gave up"),
        (f"{command}; python3 -c 'raise KeyError(1)'", "ended with 1: KeyError: 1"),
    ):
        exit_ = ended(tmp_path, monkeypatch, ["bash", "-c", script.replace("python3", sys.executable)])
        assert first_cause([exit_]).message.partition("rank 1 ")[2].startswith(want)
        for file in layout.errors_dir(1, 2).iterdir():
            file.unlink()


NOTEBOOK = """
class CellExecutionError(Exception): pass
source = "x = 1\\n" * 2000
cell = "\\x1b[36mCell\\x1b[39m\\x1b[36m \\x1b[39m\\x1b[32mIn[3]\\x1b[39m\\x1b[32m, line 1\\x1b[39m"
raise CellExecutionError(f"An error occurred:\\n{source}\\n{cell}\\n\\n\\x1b[31mValueError\\x1b[39m: bad")
"""


def test_a_long_notebook_in_colors_has_its_error_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As nbclient writes it, which `jupyter execute` and nbconvert use."""
    exit_ = ended(tmp_path, monkeypatch, program(tmp_path, NOTEBOOK))
    assert first_cause([exit_]).message == "rank 1 ended with 1: ValueError: bad (cell 3, line 1)"


def test_a_crash_after_an_exception_is_the_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "import atexit, ctypes, faulthandler\nfaulthandler.enable()\natexit.register(ctypes.string_at, 0)\n1 / 0\n"
    message = first_cause([ended(tmp_path, monkeypatch, program(tmp_path, text))]).message
    assert message.startswith("rank 1 was ended by SIGSEGV: Fatal Python error: Segmentation fault")


def test_a_log_line_about_a_peer_is_not_blame_where_the_exception_is_the_programs_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "print('Connection refused, trying again')\n" + FAILS + "load()"
    assert not ended(tmp_path, monkeypatch, program(tmp_path, text)).collateral
    text = "try:\n    raise OSError('closed by peer')\nexcept OSError as error:\n    raise KeyError from error"
    assert ended(tmp_path, monkeypatch, program(tmp_path, text)).collateral


def test_outside_a_rank_nothing_is_written(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(layout.HOOK_DIR), "COTENANT_STATE_DIR": str(tmp_path)}
    done = subprocess.run(
        program(tmp_path, "1 / 0"), cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.count("ZeroDivisionError")) == (1, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_what_is_printed_is_what_python_prints(tmp_path: Path) -> None:
    command = program(tmp_path, FAILS + "load()")
    plain = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    (tmp_path / "state" / "errors-1-2").mkdir(parents=True)
    env = rank_env(tmp_path / "state", tmp_path)
    hooked = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert hooked.stderr == plain.stderr
    assert len(list((tmp_path / "state" / "errors-1-2").glob("*.json"))) == 1


@pytest.mark.parametrize(
    ("deed", "noted"),
    [
        pytest.param("os.kill(os.getpid(), signal.SIGKILL)", signal.SIGKILL, id="itself"),
        pytest.param("os.killpg(0, signal.SIGKILL)", signal.SIGKILL, id="its group"),
        pytest.param("os.kill(os.getpid(), signal.SIGTERM)", signal.SIGTERM, id="by SIGTERM"),
        pytest.param("signal.raise_signal(signal.SIGKILL)", signal.SIGKILL, id="by the function for itself"),
        pytest.param(
            "signal.pthread_kill(threading.main_thread().ident, signal.SIGTERM)", signal.SIGTERM, id="a thread of it"
        ),
        pytest.param("subprocess.Popen(['sleep', '9']).kill()", None, id="a child"),
        pytest.param("os.kill(os.getpid(), signal.SIGUSR1)", None, id="another signal"),
    ],
)
def test_a_kill_of_its_own_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deed: str, noted: int | None
) -> None:
    monkeypatch.setenv("COTENANT_STATE_DIR", str(tmp_path / "state"))
    environment = rank_env(tmp_path / "state", tmp_path) | environment_for_errors(1, 2)
    command = [sys.executable, "-c", f"import os, signal, subprocess, threading\n{deed}"]
    subprocess.run(command, env=environment, check=False, start_new_session=True)
    ended_at = time.monotonic()
    for number in (signal.SIGKILL, signal.SIGTERM):
        assert killed_itself(1, 2, number, ended_at) is (number == noted)
        assert not killed_itself(1, 2, number, ended_at + 60), "a helper that had ended itself long before"
        assert not killed_itself(1, 2, number, ended_at - 60), "a helper that ended itself because the rank had ended"


def test_functions_that_are_watched_can_be_sent_to_a_spawned_process(tmp_path: Path) -> None:
    environment = rank_env(tmp_path / "state", tmp_path)
    watched = "(os.kill, os.killpg, signal.raise_signal, signal.pthread_kill, sys.exit)"
    same = f"pickle.loads(pickle.dumps(each)) is each for each in {watched}"
    text = f"import os, pickle, signal, sys; print(all({same}))"
    done = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr


def test_a_note_that_is_none_of_the_shims_tells_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTENANT_STATE_DIR", str(tmp_path / "state"))
    environment_for_errors(1, 2)
    (tmp_path / "state" / "errors-1-2" / "7.own-kill-9").write_text("now")
    assert not killed_itself(1, 2, 9, time.monotonic())


def test_a_program_that_is_through_names_the_threads_that_keep_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COTENANT_STATE_DIR", str(tmp_path / "state"))
    environment = rank_env(tmp_path / "state", tmp_path) | environment_for_errors(1, 2)
    keeps = "import threading; threading.Thread(target=threading.Event().wait, args=(0.2,), name='uploader').start()"
    leaves = f"{keeps}; import sys; sys.exit(3)"
    for text, want in (("pass", None), (keeps, (("uploader",), 0)), (leaves, (("uploader",), 3))):
        process = subprocess.Popen([sys.executable, "-c", text], env=environment)
        process.wait()
        found = lingering(1, 2, process.pid)
        assert (found and (found.threads, found.code)) == want


@pytest.mark.parametrize("hook", ["lambda kind, error, trace: print('oh', error)", "lambda *_: 1 / 0"])
def test_an_exception_that_the_programs_own_hook_shows_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hook: str
) -> None:
    text = f"import sys\nsys.excepthook = {hook}\n{FAILS}load()\n"
    exit_ = ended(tmp_path, monkeypatch, program(tmp_path, text))
    assert exit_.error is not None
    assert (exit_.error.type, exit_.error.message, exit_.error.frame) == ("ValueError", "empty", "train.py:4, in load")


def test_an_exception_that_the_kernel_of_a_notebook_has_shown_did_not_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What runs the notebook ends by it, and names the cell."""
    kernel = "import sys\nsys.modules['ipykernel'] = sys\nsys.last_value = ValueError('in a cell')\nsys.exit(1)\n"
    assert ended(tmp_path, monkeypatch, program(tmp_path, kernel)).error is None


PICKLES_ITSELF = """
import multiprocessing
spawn = multiprocessing.get_context("spawn")
class Actor(spawn.Process):
    def loop(self): print("loop of", type(self).__name__)
    def run(self):
        child = spawn.Process(target=self.loop)
        child.start()
        child.join()
if __name__ == "__main__":
    actor = Actor()
    actor.start()
    actor.join()
    raise SystemExit(actor.exitcode)
"""


def test_a_process_may_be_pickled_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exit_ = ended(tmp_path, monkeypatch, program(tmp_path, PICKLES_ITSELF))
    assert (exit_.code, exit_.tail) == (0, ("loop of Actor",))
