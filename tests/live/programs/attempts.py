"""Attempts of a program under the real process 1 of a pod: its ranks in one pod, with a network of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from cotenant.contract import CheckpointSpec, Contract, GpuGrant, PodGrant, RankGrant, Termination
from tests.live.programs.table import SOURCES, Program
from tests.support.pod_sandbox import until, uuid_of
from tests.support.well_formed import well_formed

OWN_NETWORK = ("unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
"""Before a command: ports of Ray and of the programs are fixed, and other tests use them too."""
PATIENCE_S = 480
"""For one attempt on a busy machine (Ray Train took 169 s at load 20); a quiet one takes a few seconds."""


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    log: str
    termination: Termination

    @property
    def starts_at(self) -> int:
        """The step that the program said it goes on from."""
        return int(re.findall(r"starts at (\d+)", self.log)[-1])

    @property
    def last_step(self) -> int:
        return max((int(step) for step in re.findall(r"step (\d+)\n", self.log)), default=0)


@dataclass(slots=True)
class Attempts:
    """The attempts of one job, one after the other: its checkpoints stay, everything else is new each time."""

    program: Program
    folder: Path
    packages: Path
    count: int = 0

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    def run(self, *, steps: int, bad_batch: int = -1, leave_at: int = 0) -> Ended:
        """One attempt to its end. It is asked to leave once it has printed `leave_at`."""
        self.count += 1
        pod = self.folder / f"pod-{self.count}"
        for each in (self.checkpoints, pod / "home"):
            each.mkdir(parents=True, exist_ok=True)
        (pod / "termination").touch()
        command = self.program.command_line(steps=steps, out=self.checkpoints, bad_batch=bad_batch)
        with (pod / "log").open("wb") as log:
            process = subprocess.Popen(
                [*OWN_NETWORK, sys.executable, "-P", "-m", "cotenant_worker"],
                env=self._environment(pod, self._contract(command)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            if leave_at:
                self._leave(process, pod / "log", leave_at)
            code = process.wait(PATIENCE_S)
        finally:
            process.kill()
            process.wait()
        termination = well_formed(Termination.from_json((pod / "termination").read_text()))
        return Ended(code, (pod / "log").read_text(errors="replace"), termination)

    def _leave(self, process: subprocess.Popen[bytes], log: Path, step: int) -> None:
        """SIGTERM, as when the pod is deleted, once the program has made the step."""

        def there() -> bool:
            return process.poll() is not None or f"step {step}\n" in log.read_text(errors="replace")

        until(there, PATIENCE_S, f"step {step} of {self.program.name}")
        assert process.poll() is None, log.read_text(errors="replace")
        process.send_signal(signal.SIGTERM)

    def _contract(self, command: tuple[str, ...]) -> Contract:
        return Contract(
            job="job",
            namespace="team",
            uid="u1",
            attempt=self.count,
            node_rank=0,
            pods=(PodGrant("pod-0", tuple(_grant(rank, self.program.gpus) for rank in range(self.program.ranks))),),
            mode="command",
            command=command,
            checkpoint=CheckpointSpec(str(self.checkpoints)),
            grace_s=30,
            platform={"codePath": str(SOURCES / self.program.folder)},
        )

    def _environment(self, pod: Path, contract: Contract) -> dict[str, str]:
        """The environment of a container whose image has the packages, and nothing of this process's but PATH."""
        return {
            "PATH": f"{Path(sys.executable).parent}:{self.packages / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(self.packages),
            "LANG": "C.UTF-8",
            "HOME": str(pod / "home"),
            "TMPDIR": str(pod / "home"),
            "COTENANT_STATE_DIR": str(pod / "state"),
            "COTENANT_TERMINATION_LOG": str(pod / "termination"),
            "POD_IP": "127.0.0.1",
            "GLOO_SOCKET_IFNAME": "lo",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": "0" * 64,
            "HF_HUB_OFFLINE": "1",
            **contract.to_environment(),
            **dict(self.program.environment),
        }


def _grant(rank: int, gpus: int) -> RankGrant:
    own = (GpuGrant(uuid_of(f"{rank}{index}"), 80000, 1000, whole=True, simulated=True) for index in range(gpus))
    return RankGrant(rank, tuple(own))
