"""The agent's part of MPS: it writes what each daemon must have, tells the daemon, and reads back what it has.

Everything follows from the prepared claims, so a restarted agent writes the same files, and running daemons and clients
are not affected. Calls of the kubelet come in threads of the gRPC server, `look` in one of its own.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cotenant_agent.dra.driver import ClaimNamespaces
from cotenant_agent.dra.prepared_claims import PreparedClaim, PreparedClaims, RefusedClaimError, with_namespaces
from cotenant_agent.enforcement.compute_limits import AskedShare, DaemonReading
from cotenant_agent.gpus.readings import Gpu
from cotenant_agent.mps import keeper
from cotenant_agent.mps.configuration import (
    GpuFolder,
    MpsError,
    NamespaceLimits,
    configuration,
    gpu_folder,
    namespace_name,
    percent_of,
)
from cotenant_agent.mps.control_program import PROGRAM, READY, ControlProgram

log = logging.getLogger("cotenant.agent.mps")

SETTLE_S: Final = 10.0
"""A kubelet that asks for a claim waits at most this long; then it asks again."""
LOOK_S: Final = 0.2
SILENT_S: Final = 30.0
"""A keeper that has not written for this time counts as missing."""


@dataclass(frozen=True, slots=True)
class WantedServer:
    """Namespaces that one GPU's server must have."""

    folder: GpuFolder
    namespaces: Mapping[str, NamespaceLimits] = field(default_factory=dict)


def wanted(root: Path, claims: Iterable[PreparedClaim]) -> dict[str, WantedServer]:
    """GPU UUID → its server, for GPUs on which a claim has a namespace. Shares of one claim on one GPU are added."""
    amounts: dict[str, dict[str, tuple[int, int]]] = {}
    for claim in claims:
        for one in claim.devices:
            if one.namespace:
                on_gpu = amounts.setdefault(one.uuid, {})
                memory, compute = on_gpu.get(one.namespace, (0, 0))
                on_gpu[one.namespace] = memory + one.memory_mib, compute + one.compute_milli
    return {
        uuid: WantedServer(
            gpu_folder(root, uuid),
            {
                name: NamespaceLimits(compute_percent=percent_of(compute), memory_mib=memory)
                for name, (memory, compute) in sorted(on_gpu.items())
            },
        )
        for uuid, on_gpu in sorted(amounts.items())
    }


def asked(claims: Iterable[PreparedClaim]) -> tuple[AskedShare, ...]:
    """Shares of compute that pods have by these claims. If several pods share a claim, none: they cannot be
    told apart.
    """
    found: dict[tuple[str, str, str], int] = {}
    for claim in claims:
        for one in claim.devices:
            if one.namespace and len(claim.pods) == 1:
                key = claim.pods[0], one.uuid, one.namespace
                found[key] = found.get(key, 0) + one.compute_milli
    return tuple(AskedShare(pod, uuid, name, milli) for (pod, uuid, name), milli in sorted(found.items()))


class ComputeNamespaces(ClaimNamespaces):
    def __init__(self, root: Path, program: str = PROGRAM, clock: Callable[[], float] = time.time) -> None:
        gpu_folder(root, "GPU-00000000-0000-0000-0000-000000000000")  # a root that is too long shows at the start
        self._root, self._program, self._clock = root, program, clock
        self.starting: Callable[[], bool] = lambda: True
        """True if MPS may be started on GPUs that it does not serve yet."""
        self._lock = threading.Lock()
        self._claims: tuple[PreparedClaim, ...] = ()
        self.changed = threading.Event()
        """Set at every change of the claims, so that the next look is due."""
        self.readings: Mapping[str, DaemonReading] = {}
        """UUID → reading of the last look. A daemon that does not answer has none."""

    def assigned(self, before: PreparedClaims, claim: PreparedClaim, gpus: Iterable[Gpu]) -> PreparedClaim:
        """The claim with the namespaces that it gets, given the prepared ones."""
        return with_namespaces(before, claim, gpus, namespace_name(claim.uid), starting=self.starting())

    def pipes(self, claim: PreparedClaim) -> dict[str, str]:
        """UUID → folder of the claim's namespace on that GPU."""
        mine = (one for one in claim.devices if one.namespace)
        return {one.uuid: str(gpu_folder(self._root, one.uuid).namespace(one.namespace)) for one in mine}

    def hold(self, claims: Iterable[PreparedClaim]) -> None:
        """Have exactly what these claims need."""
        with self._lock:
            self._claims = tuple(claims)
        self.changed.set()
        self._write_files()

    def _write_files(self) -> None:
        """Write the wanted files and remove others. A daemon without a file is ended."""
        with self._lock:
            servers = wanted(self._root, self._claims)
            files = {one.folder.file for one in servers.values()}
            for stale in set(self._root.glob("*/mps.toml")) - files:
                stale.unlink(missing_ok=True)
            for uuid, one in servers.items():
                _write(one.folder.file, configuration(uuid, one.namespaces))

    def settle(self, claim: PreparedClaim, seconds: float = SETTLE_S) -> None:
        """Return once the claim's namespaces exist and its other GPUs have no daemon. Raises RefusedClaimError."""
        self._write_files()  # again, where the disk was full when the claim came
        deadline = time.monotonic() + seconds
        while problem := self._unsettled(claim):
            if time.monotonic() > deadline:
                raise RefusedClaimError(problem)
            time.sleep(LOOK_S)

    def asked(self) -> tuple[AskedShare, ...]:
        with self._lock:
            return asked(self._claims)

    def reason(self) -> str:
        """Why there are no daemons on this node; empty if somebody keeps them."""
        report = self._root / keeper.REPORT
        try:
            age, wrong = self._clock() - report.stat().st_mtime, json.loads(report.read_text())
        except (OSError, ValueError):
            return f"nobody keeps MPS daemons in {self._root}: the DaemonSet cotenant-mps does not run here"
        if age > SILENT_S:
            return f"nobody has kept the MPS daemons in {self._root} for {age:.0f} s"
        return "; ".join(f"MPS: {text}" for text in sorted(set(wrong.values())))

    def look(self) -> None:
        """Bring running daemons to what they must have, and read back what they have."""
        with self._lock:
            servers = wanted(self._root, self._claims)
        found = {}
        for uuid, one in servers.items():
            with contextlib.suppress(MpsError):
                found[uuid] = self._look_at(one)
        self.readings = found

    def _look_at(self, server: WantedServer) -> DaemonReading:
        control = ControlProgram(server.folder, self._program)
        there = control.namespaces()
        if missing := sorted(server.namespaces.keys() - there.keys()):
            for name in missing:
                control.create(name, server.namespaces[name])
            there = control.namespaces()  # what is read back is what it has now
        for name in sorted(there.keys() - server.namespaces.keys() - {"default"}):
            with contextlib.suppress(MpsError):  # it has clients that are about to end
                control.delete(name)
        listed = control.clients()
        return DaemonReading(
            server_pid=control.server_pid(),
            percents={name: limits.compute_percent for name, limits in there.items()},
            clients={pid: control.namespace_of(pid) for pid in listed},
            expected=frozenset(server.namespaces),
        )

    def _unsettled(self, claim: PreparedClaim) -> str:
        for one in claim.devices:
            folder = gpu_folder(self._root, one.uuid)
            try:
                if one.namespace:
                    self._bring(folder, one.namespace)
                elif folder.running.exists():
                    return f"MPS still serves GPU {one.uuid}, which is to be had whole"
            except MpsError as error:
                return f"MPS of GPU {one.uuid}: {error}" + (f" ({self.reason()})" if self.reason() else "")
        return ""

    def _bring(self, folder: GpuFolder, name: str) -> None:
        control = ControlProgram(folder, self._program)
        if (status := control.server_status()) != READY:
            raise MpsError(f"the server is {status}")
        if name not in control.namespaces():
            with self._lock:
                servers = wanted(self._root, self._claims)
            limits = next((one.namespaces[name] for one in servers.values() if name in one.namespaces), None)
            if limits is not None:
                control.create(name, limits)


def _write(path: Path, text: str) -> None:
    """Write the file, unless it has this content already. A daemon reads it when it starts, which may be at any
    time.
    """
    with contextlib.suppress(OSError):
        if path.read_text() == text:
            return
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.new")
    unfinished.write_text(text)
    os.replace(unfinished, path)
