"""Long-running processes: deaths and their logs, pauses between starts, and the end. Real children, and no waiting."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from cotenant_local.host import processes
from cotenant_local.host.processes import Death, Processes, Service


async def until(holds: Callable[[], object]) -> None:
    while not holds():  # noqa: ASYNC110 – what a child does sets no event here
        await asyncio.sleep(0.001)


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


class Init:
    """An init with its deaths in a queue."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.deaths: asyncio.Queue[Death] = asyncio.Queue()
        self.processes = Processes(self.deaths.put_nowait)

    def start(self, *argv: str, restart: bool = False) -> None:
        self.processes.start(Service("one", argv, self.folder / "one.log", restart=restart))


@pytest.fixture
async def init(tmp_path: Path) -> AsyncIterator[Init]:
    made = Init(tmp_path)
    yield made
    made.processes.halt()
    made.processes.remove("one")
    asyncio.get_running_loop().remove_signal_handler(signal.SIGCHLD)


@pytest.mark.parametrize(
    ("script", "how", "lines"),
    [
        ("echo first; echo last >&2; exit 3", "exit code 3", "first\nlast"),
        ("kill -KILL $$", "signal 9 (SIGKILL)", ""),
        ("seq 99", "exit code 0", "\n".join(map(str, range(88, 100)))),
    ],
)
async def test_a_death_is_told_with_its_cause_and_the_end_of_the_log(
    init: Init, script: str, how: str, lines: str
) -> None:
    init.start("sh", "-c", script)
    death = await init.deaths.get()
    assert (death.service, death.how, death.last_lines) == ("one", how, lines)
    end = f"its log ends:\n{lines}" if lines else "its log is empty"
    assert death.describe() == f"one died: {how}; {end}"
    assert (init.processes.pid("one"), init.processes.deaths("one")) == (None, 1)


async def test_a_program_that_is_not_there_is_a_death_too(init: Init) -> None:
    init.start("/no/such")
    death = await init.deaths.get()
    assert death.how == "cannot be started: [Errno 2] No such file or directory: '/no/such'"


async def test_pauses_between_starts_double_up_to_the_longest(init: Init, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(processes, "LONGEST_PAUSE_S", 0.003)
    running = processes._Running(Service("one", ("false",), init.folder / "one.log"), pause=0.001)
    init.processes._services["one"] = running
    init.processes._spawn(running)
    pauses = []
    for _ in range(3):
        await init.deaths.get()
        pauses.append(running.pause)
    assert pauses == [0.002, 0.003, 0.003]
    assert init.processes.deaths("one") == 3


async def test_a_service_that_ran_long_is_started_again_after_the_shortest_pause(init: Init) -> None:
    running = processes._Running(Service("one", ("false",), init.folder / "one.log"), pause=8.0)
    running.started = 1.0  # long ago
    init.processes._died(running, "exit code 1")
    assert running.pause == 2 * processes.FIRST_PAUSE_S
    assert running.restart is not None
    running.restart.cancel()


async def test_a_service_that_is_stopped_has_its_grace_and_its_death_is_not_told(init: Init) -> None:
    init.start("sh", "-c", "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done")
    log = init.folder / "one.log"
    await until(log.read_text)
    await init.processes.stop("one", 10)
    assert (log.read_text(), init.deaths.empty(), init.processes.status()) == ("up\nbye\n", True, {})


async def test_a_service_that_ignores_its_signal_is_killed(init: Init) -> None:
    init.start("sh", "-c", "trap '' TERM; echo up; exec sleep 1000")
    await until((init.folder / "one.log").read_text)
    pid = init.processes.pid("one")
    assert pid is not None
    await init.processes.stop("one", 0.001)
    await until(lambda: is_gone(pid))
    assert init.deaths.empty()


async def test_a_service_that_is_killed_has_died_for_everybody(init: Init) -> None:
    init.start("sleep", "600")
    init.processes.kill("one")
    init.processes.kill("none")
    assert (await init.deaths.get()).how == "signal 9 (SIGKILL)"


async def test_the_status_of_a_service_is_its_process_and_its_last_death(init: Init) -> None:
    init.start("sleep", "1000")
    pid = init.processes.pid("one")
    assert pid is not None
    status = init.processes.status()["one"]
    assert {key: status[key] for key in ("pid", "stopped", "restarts", "lastDeath")} == {
        "pid": pid,
        "stopped": False,
        "restarts": 0,
        "lastDeath": None,
    }
    os.kill(pid, signal.SIGTERM)
    death = await init.deaths.get()
    status = init.processes.status()["one"]
    last = {"service": "one", "how": "signal 15 (SIGTERM)", "last_lines": "", "at": death.at}
    assert (status["pid"], status["restarts"], status["lastDeath"]) == (None, 1, last)


async def test_after_the_halt_nothing_is_told_or_started(init: Init) -> None:
    init.start("sleep", "1000", restart=True)
    pid = init.processes.pid("one")
    assert pid is not None
    init.processes.halt()
    os.kill(pid, signal.SIGKILL)
    await until(lambda: is_gone(pid))
    assert (init.deaths.empty(), init.processes.pid("one")) == (True, None)


def test_a_log_that_cannot_be_read_is_told_in_its_place(tmp_path: Path) -> None:
    log = tmp_path / "absent.log"
    assert processes.tail(log) == f"({log} cannot be read: No such file or directory)"
