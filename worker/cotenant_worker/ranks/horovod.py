"""The process of `horovod_rendezvous` in rank 0's pod. Each start of the ranks gets a new one, so that nothing of an
earlier generation misleads the next.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cotenant.contract import Contract
from cotenant_worker.host import layout
from cotenant_worker.host.processes import ChildProcess, ChildWatcher
from cotenant_worker.supervision.worker_group import WorkerGroup

_PLACE: Final = re.compile("HOROVOD_((LOCAL_|CROSS_)?(RANK|SIZE)|HOSTNAME|GLOO_RENDEZVOUS_.*)")


@dataclass(slots=True)
class HorovodRendezvous:
    contract: Contract
    children: ChildWatcher
    enabled: bool
    """True if the program will look for Horovod's rendezvous."""
    _running: ChildProcess | None = None

    def start(self, group: WorkerGroup, base: Mapping[str, str]) -> None:
        """Start the rendezvous of `group` if it belongs in this pod, and kill the one before."""
        if self._running is not None:
            self._running.signal(signal.SIGKILL, group=True)
            self._running = None
        if self.enabled and group.size > 1 and self.contract.node_rank == group.ranks[0].pod:
            with socket.create_server((group.master_addr, group.coordinator_port), backlog=256) as listener:
                self._running = self._spawn(listener.fileno(), base)

    def variables(self, env: Mapping[str, str]) -> dict[str, str]:
        """The variables of a rank. If its program does not use Horovod, HOROVOD_RANK and its like are left out, because
        Lightning 1 would then train with Horovod.
        """
        return {name: value for name, value in env.items() if self.enabled or not _PLACE.fullmatch(name)}

    def _spawn(self, listener: int, base: Mapping[str, str]) -> ChildProcess:
        argv = [sys.executable, "-P", "-m", "cotenant_worker.ranks.horovod_rendezvous", str(listener)]
        output = os.open(layout.state_dir() / "horovod-rendezvous.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            return self.children.spawn("horovod-rendezvous", argv, base, cwd="/", output=output, keep=[listener])
        finally:
            os.close(output)
