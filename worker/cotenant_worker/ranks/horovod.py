"""The process that Horovod's ranks need beside them: the place where they meet. Part of `ranks`.

It is fresh for every start of the ranks: what an earlier world left in it would mislead the next one.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cotenant.contract import Contract
from cotenant_worker.host import layout
from cotenant_worker.host.processes import ChildProcess, ChildWatcher
from cotenant_worker.supervision.worker_group import WorkerGroup


@dataclass(slots=True)
class HorovodRendezvous:
    contract: Contract
    children: ChildWatcher
    enabled: bool
    """The program will look for Horovod's rendezvous."""
    _running: list[ChildProcess] = field(default_factory=list)

    def start(self, group: WorkerGroup, base: Mapping[str, str]) -> None:
        """This pod's part of what `world` needs; what ran before is killed."""
        for child in self._running:
            child.signal(signal.SIGKILL, group=True)
        self._running = []
        if self.enabled and group.size > 1 and self.contract.node_rank == group.ranks[0].pod:
            self._start_rendezvous(group, base)

    def _start_rendezvous(self, world: WorkerGroup, base: Mapping[str, str]) -> None:
        with socket.create_server((world.master_addr, world.coordinator_port), backlog=256) as listener:
            number = listener.fileno()
            self._spawn("rendezvous", "ranks.horovod_rendezvous", str(number), env=base, keep=[number])

    def _spawn(
        self, name: str, module: str, argument: str, *, env: Mapping[str, str], keep: Sequence[int] = ()
    ) -> None:
        argv = [sys.executable, "-P", "-m", f"cotenant_worker.{module}", argument]
        output = os.open(layout.state_dir() / "companions.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self._running.append(self.children.spawn(name, argv, env, cwd="/", output=output, keep=keep))
        finally:
            os.close(output)
