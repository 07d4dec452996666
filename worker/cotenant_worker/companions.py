"""Processes that ranks need beside them: parameter servers, the place where Horovod meets. Part of `ranks`.

They are fresh for every start of the ranks: what an earlier world left in them would mislead the next one.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cotenant.contract import Contract
from cotenant_worker import layout
from cotenant_worker.children import Child, Nursery
from cotenant_worker.environment import rank_environment, servers_of
from cotenant_worker.machine import pod_interface
from cotenant_worker.worlds import World


@dataclass(slots=True)
class Companions:
    contract: Contract
    nursery: Nursery
    horovod: bool
    """The program will look for Horovod's rendezvous."""
    _running: list[Child] = field(default_factory=list)

    def start(self, world: World, base: Mapping[str, str]) -> None:
        """This pod's part of what `world` needs; what ran before is killed."""
        for child in self._running:
            child.signal(signal.SIGKILL, group=True)
        self._running = []
        if world.of_pod(self.contract.node_rank):
            self._start_servers(world, base)
            if self.horovod and world.size > 1 and self.contract.node_rank == world.members[0].pod:
                self._start_rendezvous(world, base)

    def _start_servers(self, world: World, base: Mapping[str, str]) -> None:
        """Workers bring the parameters."""
        member = world.of_pod(self.contract.node_rank)[0]
        for index, (pod, address) in enumerate(servers_of(self.contract, world)):
            if pod != self.contract.node_rank:
                continue
            env = {**base, **rank_environment(self.contract, world, member, interface=pod_interface())}
            env |= {"POD_IP": address.rpartition(":")[0], "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
            del env["RANK"]
            self._spawn(f"server {index}", "parameter_server", str(index), env=env)

    def _start_rendezvous(self, world: World, base: Mapping[str, str]) -> None:
        with socket.create_server((world.master_addr, world.coordinator_port), backlog=256) as listener:
            number = listener.fileno()
            self._spawn("rendezvous", "rendezvous", str(number), env=base, keep=[number])

    def _spawn(
        self, name: str, module: str, argument: str, *, env: Mapping[str, str], keep: Sequence[int] = ()
    ) -> None:
        argv = [sys.executable, "-P", "-m", f"cotenant_worker.{module}", argument]
        output = os.open(layout.state_dir() / "companions.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self._running.append(self.nursery.spawn(name, argv, env, cwd="/", output=output, keep=keep))
        finally:
            os.close(output)
