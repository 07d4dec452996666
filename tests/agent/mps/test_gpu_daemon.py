"""One daemon and the commands that it answers, beside a program that has NVIDIA's words and no GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cotenant_agent.mps.configuration import GpuFolder, MpsError, NamespaceLimits, configuration
from cotenant_agent.mps.gpu_daemon import GpuDaemon
from tests.agent.mps.ready_daemon import wait_ready
from tests.agent.mps.world import UUID, World

SHARE = NamespaceLimits(compute_percent=40, memory_mib=32_000)
LESS = NamespaceLimits(compute_percent=10, memory_mib=8_000)
Start = Callable[[str], GpuDaemon]


@pytest.fixture
def start(world: World) -> Iterator[Start]:
    started: list[GpuDaemon] = []

    def of(uuid: str) -> GpuDaemon:
        folder = GpuFolder(world.root / "0")
        folder.path.mkdir()
        folder.file.write_text(configuration(uuid, {"share": SHARE}))
        started.append(GpuDaemon(folder, world.control))
        started[0].start()
        return started[0]

    yield of
    for daemon in started:
        daemon.stop()


def test_limits_are_read_back_and_clients_are_found_in_their_namespace(world: World, start: Start) -> None:
    daemon = start(UUID)
    wait_ready(daemon)
    world.tell("clients", "51023=share", "51024=default")
    control = daemon.control
    nobody = NamespaceLimits(compute_percent=1, memory_mib=1)
    assert (control.server_status(), control.server_pid()) == ("Ready", 4711)
    assert control.namespaces() == {"share": SHARE, "default": nobody}
    assert control.clients() == {51023: "share", 51024: "default"}
    assert [control.namespace_of(pid) for pid in (51023, 51024, 51025)] == ["share", "default", ""]


def test_namespaces_come_and_go_while_it_runs_but_for_those_with_clients(world: World, start: Start) -> None:
    daemon = start(UUID)
    wait_ready(daemon)
    daemon.control.create("less", LESS)
    assert daemon.control.namespaces()["less"] == LESS
    assert (daemon.control.folder.namespace("less") / "control").exists()
    world.tell("clients", "51023=less")
    with pytest.raises(MpsError, match="namespace less has active clients"):
        daemon.control.delete("less")
    world.tell("clients")
    daemon.control.delete("less")
    assert "less" not in daemon.control.namespaces()


def test_a_daemon_that_says_something_else_is_believed(world: World, start: Start) -> None:
    world.tell("lies")
    daemon = start(UUID)
    wait_ready(daemon)
    assert daemon.control.namespaces()["share"].compute_percent == 100


def test_a_server_that_vanished_is_not_ready(start: Start) -> None:
    daemon = start("GPU-elsewhere")
    says = ""
    while "was not found" not in says:  # until it answers, however long that takes on a busy machine
        with pytest.raises(MpsError) as refused:
            wait_ready(daemon, 0)
        says = str(refused.value)
    assert "server list gpu: server gpu was not found" in says


@pytest.mark.parametrize(
    ("fault", "said"),
    [("broken", "ended with 1: no CUDA-capable device"), ("old", "ended with 1: MPS v2 does not know these words")],
)
def test_a_daemon_that_does_not_start_is_quoted(world: World, start: Start, fault: str, said: str) -> None:
    world.tell(fault)
    with pytest.raises(MpsError, match=said):
        wait_ready(start(UUID))


def test_a_machine_without_the_program_says_so(tmp_path: Path) -> None:
    with pytest.raises(MpsError, match="cannot be started: No such file"):
        GpuDaemon(GpuFolder(tmp_path), str(tmp_path / "nowhere")).start()
