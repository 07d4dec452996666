"""The keeper of daemons: what has a file is served and exclusive, what has none is open to all again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from cotenant_agent.mps.configuration import MpsError, NamespaceLimits, configuration, gpu_folder
from cotenant_agent.mps.control_program import READY, ControlProgram
from cotenant_agent.mps.keeper import REPORT, RETRY_S, Keeper
from tests.agent.mps.world import OTHER, UUID, World

SHARE = NamespaceLimits(compute_percent=40, memory_mib=32_000)
EXCLUSIVE = f"--id={UUID} --compute-mode=EXCLUSIVE_PROCESS"
DEFAULT = f"--id={UUID} --compute-mode=DEFAULT"


@pytest.fixture
def keeper(world: World) -> Iterator[Keeper]:
    made = Keeper(world.root)
    yield made
    made.stop()


def want(world: World, uuid: str = UUID) -> ControlProgram:
    folder = gpu_folder(world.root, uuid)
    folder.path.mkdir(exist_ok=True)
    folder.file.write_text(configuration(uuid, {"share": SHARE}))
    return ControlProgram(folder, world.control)


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            if true():
                return
        except MpsError:
            pass
        assert time.monotonic() < deadline
        time.sleep(0.02)


def turned(keeper: Keeper, now: float) -> bool:
    keeper.turn(now)
    return True


def ready(control: ControlProgram) -> None:
    until(lambda: control.server_status() == READY)


def test_a_gpu_is_exclusive_before_its_daemon_starts_and_open_after_it_has_ended(world: World, keeper: Keeper) -> None:
    keeper.turn(0.0)
    assert (world.modes(), json.loads((world.root / REPORT).read_text())) == ([], {})
    control = want(world)
    keeper.turn(1.0)
    assert (world.modes(), control.folder.running.read_text()) == ([EXCLUSIVE], UUID)
    ready(control)
    keeper.turn(2.0)
    assert world.modes() == [EXCLUSIVE]
    control.folder.file.unlink()
    keeper.turn(3.0)
    assert (world.modes(), control.folder.running.exists()) == ([EXCLUSIVE, DEFAULT], False)
    with pytest.raises(MpsError, match="cannot connect"):
        control.server_status()


def test_a_daemon_that_ended_is_started_again_with_what_its_file_says_by_then(world: World, keeper: Keeper) -> None:
    control = want(world)
    keeper.turn(0.0)
    ready(control)
    control.quit()
    control.folder.file.write_text(configuration(UUID, {"other": SHARE}))
    until(lambda: turned(keeper, RETRY_S) and "other" in control.namespaces())
    assert "share" not in control.namespaces()


def test_one_that_does_not_start_is_named_and_tried_again_after_a_pause(world: World, keeper: Keeper) -> None:
    world.tell("broken")
    control = want(world)
    good = want(world, OTHER)
    report = world.root / REPORT
    until(lambda: turned(keeper, 0.0) and control.folder.path.name in json.loads(report.read_text()))
    said = "the daemon ended with 1: no CUDA-capable device is detected"
    assert json.loads(report.read_text())[control.folder.path.name] == said
    (world.folder / "broken").unlink()
    until(lambda: turned(keeper, RETRY_S) and control.server_status() == READY)
    until(lambda: turned(keeper, RETRY_S) and good.server_status() == READY)
    until(lambda: turned(keeper, RETRY_S) and json.loads(report.read_text()) == {})


def test_a_file_that_cannot_be_read_stops_no_other_daemon(world: World, keeper: Keeper) -> None:
    bad, good = want(world), want(world, OTHER)
    bad.folder.file.write_text("servers = 1 = 2")
    keeper.turn(0.0)
    ready(good)
    assert list(json.loads((world.root / REPORT).read_text())) == [bad.folder.path.name]


def test_without_the_right_to_make_it_exclusive_the_gpu_is_served_all_the_same(world: World, keeper: Keeper) -> None:
    """What is claimed of it is for the agent to judge, which reads the mode back from the driver."""
    world.tell("no-root")
    control = want(world)
    keeper.turn(0.0)
    ready(control)
    control.folder.file.unlink()
    keeper.turn(1.0)
    (problem,) = json.loads((world.root / REPORT).read_text()).values()
    assert problem == f"{UUID} stays exclusive: Insufficient permissions"
    assert control.folder.running.exists()
    (world.folder / "no-root").unlink()
    keeper.turn(2.0)
    assert (world.modes(), control.folder.running.exists()) == ([DEFAULT], False)


def test_what_a_killed_keeper_left_is_taken_up_by_the_next(world: World) -> None:
    stays, goes = want(world), want(world, OTHER)
    for control in (stays, goes):
        control.folder.running.write_text(control.folder.path.name)
    goes.folder.running.write_text(OTHER)
    goes.folder.file.unlink()
    second = Keeper(world.root)
    second.turn(0.0)
    ready(stays)
    assert world.modes() == [f"--id={OTHER} --compute-mode=DEFAULT", EXCLUSIVE]
    assert (stays.folder.running.exists(), goes.folder.running.exists()) == (True, False)
    second.stop()
    assert world.modes()[-1] == DEFAULT


def test_the_container_s_command_serves_until_it_is_told_to_end(world: World) -> None:
    control = want(world)
    command = [sys.executable, "-m", "cotenant_agent.mps.keeper", f"--root={world.root}"]
    process = subprocess.Popen(command, env=os.environ.copy(), stderr=subprocess.DEVNULL)
    try:
        ready(control)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
    assert world.modes() == [EXCLUSIVE, DEFAULT]
    assert not control.folder.running.exists()
