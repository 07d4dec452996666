"""Ray as child processes of the launcher: this pod's node, and in rank 0's pod the driver."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cotenant import names
from cotenant.contract import Contract
from cotenant_worker.host import layout
from cotenant_worker.host.addresses import family_of
from cotenant_worker.host.container import available_cpus
from cotenant_worker.host.processes import ChildProcess, ChildWatcher
from cotenant_worker.ranks.memory_limits import with_limits
from cotenant_worker.ray_cluster.node_command import ray_environment, start_command
from cotenant_worker.supervision.commands import Finish

_EXCEPTION = re.compile(r"[\w.]*(Error|Exception|Interrupt|Exit): ")


ASK_THE_ADMINISTRATOR = (
    "Ask the administrator whether pods may reach the cluster's DNS: operator.settings dns_namespace, dns_cidrs and"
    " dns_ports of the chart name it"
)


@dataclass(slots=True)
class RayProcesses:
    contract: Contract
    children: ChildWatcher
    inherited: Mapping[str, str]
    ip: str
    limits: Mapping[str, str] = field(default_factory=dict)
    joined: bool = False
    """True once the driver has reached this pod's actor."""
    _node: ChildProcess | None = None
    _driver: ChildProcess | None = None
    _lookup_failed: OSError | None = None
    """Last answer to the lookup of the head's address."""
    _log: Path = field(default_factory=lambda: layout.state_dir() / "ray.log")

    @property
    def is_head(self) -> bool:
        return self.contract.node_rank == 0

    def mark_joined(self) -> None:
        self.joined = True

    async def run(self) -> Finish:
        """Start what this pod needs. Returns when one of its processes has ended, with the meaning of that."""
        env = self.environment() | {names.ENV_POD_IP: self.ip}
        address = self.ip if self.is_head else await self._resolve_head()
        if address is None:
            return self._head_not_found()
        command = start_command(self.contract, sys.executable, ip=self.ip, head_address=address, cpus=available_cpus())
        self._node = self._spawn("ray", command, env)
        waits = [self._node.exit]
        if self.is_head and self.contract.mode == "rayTrain":
            if not await self._wait_for_head_port():
                return self._finish_after(self._node)
            driver = [sys.executable, "-P", "-m", "cotenant_worker.ray_cluster.driver"]
            self._driver = self._spawn("driver", driver, env)
            waits.append(self._driver.exit)
        elif self.is_head:
            self._driver = self._node  # one process: `node_main`
        if not self.is_head and not await self._wait_until_joined(waits):
            return self._join_timeout()
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        driver_ended = self._driver is not None and not self._driver.alive
        return self._finish_after(self._driver if driver_ended and self._driver is not None else self._node)

    async def _wait_until_joined(self, waits: Sequence[asyncio.Future[int]]) -> bool:
        """True once the node has ended or is in use.

        The head gets the rendezvous timeout to come, and the node gets it again to join. If Ray is cut off in between,
        it waits for one answer after another, each with a timeout of its own.
        """
        await asyncio.wait(waits, timeout=2.0 * self.contract.rendezvous_timeout_s)
        return self.joined or any(each.done() for each in waits)

    def _join_timeout(self) -> Finish:
        head, waited = self.contract.pods[0].host, 2 * self.contract.rendezvous_timeout_s
        text = f"this pod did not get into the job's Ray cluster at {head} within {waited} s"
        return Finish(names.EXIT_RENDEZVOUS_TIMEOUT, "RendezvousTimeout", text, tail=self._last_lines())

    def _spawn(self, name: str, command: list[str], env: dict[str, str]) -> ChildProcess:
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            return self.children.spawn(name, command, env, cwd=str(layout.state_dir()), output=log)
        finally:
            os.close(log)

    async def _resolve_head(self) -> str | None:
        """The head's address. Its name resolves once its pod has an address."""
        loop = asyncio.get_running_loop()
        host, family = self.contract.pods[0].host, family_of(self.ip)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.contract.rendezvous_timeout_s):
                while True:
                    try:
                        found = await loop.getaddrinfo(host, None, family=family, type=socket.SOCK_STREAM)
                        return str(found[0][4][0])
                    except OSError as error:
                        self._lookup_failed = error
                    await asyncio.sleep(0.1)
        return None

    def _head_not_found(self) -> Finish:
        host, waited = self.contract.pods[0].host, self.contract.rendezvous_timeout_s
        text = f"{host} had no address within {waited} s"
        failed = self._lookup_failed
        if isinstance(failed, socket.gaierror) and failed.errno == socket.EAI_AGAIN:
            text += f": no DNS server answered this pod ({failed.strerror}). {ASK_THE_ADMINISTRATOR}"
        return Finish(names.EXIT_RENDEZVOUS_TIMEOUT, "RendezvousTimeout", text)

    async def _wait_for_head_port(self) -> bool:
        """Wait for the head's port, because the driver cannot start before."""
        assert self._node is not None
        while self._node.alive:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(self.ip, layout.RAY_PORT)
                writer.close()
                return True
            await asyncio.sleep(0.03)
        return False

    def _finish_after(self, process: ChildProcess) -> Finish:
        code = process.exit.result() if process.exit.done() else 0
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        lines = self._last_lines()
        why = failure_line(lines)
        head = self.contract.pods[0].host
        if self.is_head:
            what = f"the job's Ray cluster ended: {why}" if why else f"the job's Ray cluster ended: its driver {how}"
            return Finish(names.EXIT_RAY_DIED, "RayDied", what, tail=lines)
        if not self.joined:
            text = f"this pod could not join the job's Ray cluster at {head}: {why or f'its node {how}'}"
            return Finish(names.EXIT_RENDEZVOUS_TIMEOUT, "RendezvousTimeout", text, tail=lines)
        text = f"the pod of rank 0, {head}, is gone, or this pod's part of the Ray cluster: {why or f'its node {how}'}"
        return Finish(names.EXIT_PEER_LOST, "PeerLost", text, tail=lines)

    def _last_lines(self) -> tuple[str, ...]:
        """Last lines of what Ray and the driver printed, for the verdict's tail."""
        with contextlib.suppress(OSError):
            lines = self._log.read_text(errors="replace").splitlines()
            return tuple(line.rstrip()[:500] for line in lines if line.strip())[-20:]
        return ()

    def environment(self) -> dict[str, str]:
        """Ray's environment. In mode `rayTrain` with the tightest limit of the pod, because a worker may use any of its
        GPUs.
        """
        home = layout.state_dir() / "home"
        home.mkdir(exist_ok=True)
        return with_limits(ray_environment(self.inherited, self.contract, home=str(home)), self.limits)

    async def drain(self, deadline_s: float) -> None:
        """Mode `rayTrain`: SIGTERM makes `ray start` drain its node, and Ray Train tells its workers."""
        if self._node is not None and self._node.alive:
            self._node.signal(signal.SIGTERM)
            await asyncio.wait([self._node.exit], timeout=deadline_s)

    async def wait_for_driver(self, deadline_s: float) -> None:
        if self._driver is not None and self._driver.alive:
            await asyncio.wait([self._driver.exit], timeout=deadline_s)


def failure_line(lines: Sequence[str]) -> str:
    """The reason in the last lines of a log: a line of ours, otherwise the exception that ends a traceback."""
    for line in reversed(lines):
        if line.startswith("cotenant: "):
            return line.removeprefix("cotenant: ")
        if _EXCEPTION.match(line):
            return line[:300]
        if line.startswith("Timeout ("):  # `faulthandler`, in `driver.main`
            return f"Ray did not answer its driver in time: {line[9:16]}"
    return ""
