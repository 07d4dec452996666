"""Nodes that are switched off and on, frozen and cut off. Their inits are only started on paper."""

import asyncio
import json
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from cotenant_local.controlplane import network
from cotenant_local.controlplane.node_machines import NodeError, NodeMachines
from cotenant_local.host import procfs
from cotenant_local.host.cluster_folder import ClusterFolder
from cotenant_local.host.processes import Death, Service
from local.tests.plans import cluster_plan

PID = 4711


class PlayedProcesses:
    """Starts an init that says hello, and keeps its end of the channel."""

    def __init__(self) -> None:
        self.started: list[Service] = []
        self.removed: list[str] = []
        self.killed: list[str] = []
        self.silent = False
        self.ends: list[socket.socket] = []

    def start(self, service: Service) -> None:
        self.started.append(service)
        end = socket.socket(fileno=socket.dup(service.pass_fds[0]))
        if not self.silent:
            end.sendall(b'{"hello": true}\n')
        self.ends.append(end)

    def pid(self, name: str) -> int:
        return PID

    def kill(self, name: str) -> None:
        self.killed.append(name)

    def remove(self, name: str) -> None:
        self.removed.append(name)


class Lan:
    """A supervisor's two nodes, and what is done to the network and to processes."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[tuple[Any, ...]] = []
        self.lines: list[str] = []
        self.processes = PlayedProcesses()
        played: Any = self.processes
        for name in ("plug", "unplug"):
            monkeypatch.setattr(network, name, lambda port, *_, name=name: self.done.append((name, port)))
        monkeypatch.setattr(network, "isolate", lambda cut: self.done.append(("isolate", *(node.name for node in cut))))
        monkeypatch.setattr("os.kill", lambda pid, number: self.done.append(("kill", pid, number)))
        monkeypatch.setattr(procfs, "descendants", lambda root: [root, root + 1])
        monkeypatch.setattr(procfs, "any_stopped", lambda _: False)
        self.machines = NodeMachines(
            ClusterFolder(folder), cluster_plan(2), played, log=self.lines.append, on_start=self.lines.append
        )

    def state(self, name: str = "node-1") -> tuple[str, bool]:
        status = self.machines.status()[name]
        return status["power"], status["isolated"]


@pytest.fixture
def lan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lan:
    return Lan(tmp_path, monkeypatch)


async def test_a_node_is_plugged_in_once_its_init_is_there_and_then_goes_on(lan: Lan, tmp_path: Path) -> None:
    await lan.machines.start("node-2")
    (service,) = lan.processes.started
    assert service.argv[:2] == ("unshare", "--net")
    module = service.argv.index("cotenant_local.node.init")
    assert service.argv[module + 1 : module + 3] == (str(tmp_path), "node-2")
    assert (service.log, service.restart) == (tmp_path / "logs" / "node-2.log", False)
    assert (lan.done, lan.lines, lan.state("node-2")) == ([("plug", "port1")], ["node-2"], ("on", False))
    with lan.processes.ends[0] as init, init.makefile("rb") as file:
        assert json.loads(file.readline()) == {"go": True}


@pytest.mark.looptime
async def test_a_node_that_hangs_at_its_start_is_switched_off_as_a_death_that_is_told(lan: Lan) -> None:
    lan.processes.silent = True
    await lan.machines.start("node-1")
    assert (lan.processes.killed, lan.done) == (["node-1"], [])


async def test_reports_of_a_node_are_its_status_and_its_notes_go_to_the_log(lan: Lan) -> None:
    await lan.machines.start("node-1")
    with lan.processes.ends[0] as init:
        init.sendall(b'{"note": "kubelet died", "components": {"kubelet": {}}}\n{"note": "again"}\n')
        init.shutdown(socket.SHUT_WR)
        listening = lan.machines._machines["node-1"].listening
        assert listening is not None
        await listening
    assert lan.lines == ["node-1", "node-1: kubelet died", "node-1: again"]
    assert lan.machines.status()["node-1"]["components"] == {"kubelet": {}}


async def test_a_node_that_dies_starts_again_unless_it_was_switched_off(
    lan: Lan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cotenant_local.controlplane.node_machines.RESTART_PAUSE_S", 0)
    await lan.machines.start("node-1")
    lan.machines.on_death(Death("node-1", "signal 9 (SIGKILL)", "", 0.0))
    await asyncio.gather(*lan.machines._restarts)
    assert [service.name for service in lan.processes.started] == ["node-1", "node-1"]
    lan.machines.stop("node-1")
    lan.machines.on_death(Death("node-1", "signal 9 (SIGKILL)", "", 0.0))
    await asyncio.gather(*lan.machines._restarts)
    assert (len(lan.processes.started), lan.processes.removed, lan.state()) == (2, ["node-1"], ("off", False))


async def test_a_frozen_node_goes_on_with_all_its_processes(lan: Lan) -> None:
    await lan.machines.start("node-1")
    lan.done.clear()
    lan.machines.freeze("node-1")
    assert lan.state() == ("frozen", False)
    await lan.machines.restore("node-1")
    assert lan.state() == ("on", False)
    assert sorted(lan.done) == [
        ("kill", pid, number) for pid in (PID, PID + 1) for number in (signal.SIGCONT, signal.SIGSTOP)
    ]


async def test_every_node_that_is_cut_off_stays_so_until_it_is_restored(lan: Lan) -> None:
    await lan.machines.start("node-1")
    lan.done.clear()
    lan.machines.isolate("node-1")
    lan.machines.isolate("node-2")
    await lan.machines.restore("node-1")
    assert lan.done == [("isolate", "node-1"), ("isolate", "node-1", "node-2"), ("isolate", "node-2")]
    assert (lan.state("node-1"), lan.state("node-2")) == (("on", False), ("off", True))


async def test_a_node_that_is_off_is_switched_on_by_restoring_it(lan: Lan) -> None:
    await lan.machines.restore("node-2")
    assert lan.state("node-2") == ("on", False)


async def test_a_node_that_is_not_there_or_off_is_refused(lan: Lan) -> None:
    unknown = r"^there is no node node-9; this cluster has node-1, node-2\.$"
    for act in (lan.machines.stop, lan.machines.freeze, lan.machines.isolate):
        with pytest.raises(NodeError, match=unknown):
            act("node-9")
    with pytest.raises(NodeError, match=r"^node-1 is stopped; nothing runs there that could be frozen\.$"):
        lan.machines.freeze("node-1")
    assert ("node-1" in lan.machines, "node-9" in lan.machines) == (True, False)


def test_all_nodes_are_switched_off_at_once(lan: Lan) -> None:
    lan.machines.stop_all()
    assert lan.processes.removed == ["node-1", "node-2"]
