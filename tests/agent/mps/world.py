"""A machine whose `nvidia-cuda-mps-control` and `nvidia-smi` are played, and claims on its GPUs."""

from __future__ import annotations

import sys
from pathlib import Path

from cotenant_agent.dra.prepared_claims import PreparedClaim, PreparedDevice

FAKE = Path(__file__).with_name("fake_mps_control.py")
UUID = "GPU-0a1b2c3d-0000-0000-0000-000000000001"
OTHER = "GPU-0a1b2c3d-0000-0000-0000-000000000002"


class World:
    """`folder / "bin"` belongs on PATH; what the GPUs and clients are is written by `tell`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root, self.bin = folder / "world", folder / "mps", folder / "bin"
        for made in (self.folder, self.root, self.bin):
            made.mkdir()
        self._program("nvidia-cuda-mps-control", f'FAKE_MPS={self.folder} exec {sys.executable} {FAKE} "$@"')
        refusal = f'if [ -e {self.folder}/no-root ]; then echo "Insufficient permissions" >&2; exit 4; fi'
        self._program("nvidia-smi", f'{refusal}\necho "$@" >> {self.folder}/modes')
        self.control = str(self.bin / "nvidia-cuda-mps-control")
        self.tell("gpus", UUID, OTHER)

    def _program(self, name: str, script: str) -> None:
        (self.bin / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.bin / name).chmod(0o755)

    def tell(self, name: str, *lines: str) -> None:
        (self.folder / name).write_text("\n".join(lines) + "\n")

    def modes(self) -> list[str]:
        """What `nvidia-smi` was asked for."""
        path = self.folder / "modes"
        return path.read_text().splitlines() if path.exists() else []


def claim(uid: str, *held: tuple[str, int, int], namespace: str | None = None) -> PreparedClaim:
    """(GPU, MiB, milli-GPU) of a pod that has the claim's name; by default with the namespace that it gets."""
    from cotenant_agent.mps.configuration import namespace_name

    name = namespace_name(uid) if namespace is None else namespace
    devices = tuple(
        PreparedDevice(
            request="g",
            device=uuid.lower(),
            share_id="",
            uuid=uuid,
            memory_mib=mib,
            compute_milli=milli,
            namespace=name,
        )
        for uuid, mib, milli in held
    )
    return PreparedClaim(namespace="team", name=uid, uid=uid, pool="n1", devices=devices, pods=(f"pod-{uid}",))
