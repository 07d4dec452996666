"""One GPU, and child processes on it that start with a rank's environment or without it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cotenant.contract import GpuGrant
from cotenant_worker.host import layout
from cotenant_worker.ranks import memory_limits

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("programs") / "gpu_child.py"
MIB, GIB = 1 << 20, 1 << 30
SHARE = 0.4
_ANSWER_S = 300.0
_USED = """
import os, subprocess, sys
uuid = os.environ["CUDA_VISIBLE_DEVICES"]
try:
    import pynvml
    pynvml.nvmlInit()
    print(pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByUUID(uuid)).used)
except Exception:
    query = ["nvidia-smi", "-i", uuid, "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    print(int(subprocess.run(query, capture_output=True, text=True, check=True).stdout) << 20)
"""


class Child:
    """One process of a job, `programs.gpu_child`: it answers in lines of JSON."""

    def __init__(self, deed: str, *numbers: int, env: dict[str, str]) -> None:
        command = [sys.executable, str(PROGRAM), deed, *map(str, numbers)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def answer(self) -> dict[str, Any]:
        """The next line; RuntimeError when the child ends instead, or writes nothing for _ANSWER_S seconds."""
        assert self.process.stdout
        timeout = threading.Timer(_ANSWER_S, self.process.kill)
        timeout.start()
        line = self.process.stdout.readline()
        timeout.cancel()
        if not line:
            _, error = self.process.communicate(timeout=60)
            raise RuntimeError(f"child ended with {self.process.returncode}: {error.strip()[-600:]}")
        found: dict[str, Any] = json.loads(line)
        return found

    def go(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def end(self) -> None:
        try:
            self.process.communicate("\n", timeout=60)
        except (subprocess.TimeoutExpired, ValueError, BrokenPipeError):
            self.process.kill()
            self.process.wait()


@dataclass
class GpuBench:
    """The measured GPU, and the rows of the table."""

    uuid: str
    total: int
    state: Path
    rounds: int
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, name: str, ok: bool | None, text: str, **data: Any) -> None:
        verdict = {True: "holds", False: "FAILS", None: "measured"}[ok]
        self.rows[name] = {"verdict": verdict, "text": text, **data}
        print(f"{name:<46} {verdict:<9} {text}", flush=True)

    def plain(self, uuid: str = "") -> dict[str, str]:
        """Environment of a child on the same GPU without Cotenant's hook."""
        path = f"{ROOT / 'operator'}:{ROOT / 'worker'}"
        own = {"CUDA_VISIBLE_DEVICES": uuid or self.uuid, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "PYTHONPATH": path}
        return {**os.environ, **own}

    def rank(self, share: float | None = SHARE, uuid: str = "") -> dict[str, str]:
        """Environment of a rank with this share, or with the whole GPU, as the launcher makes it."""
        env = self.plain(uuid)
        env |= {"PYTHONPATH": f"{layout.HOOK_DIR}:{env['PYTHONPATH']}", layout.ENV_STATE: str(self.state)}
        env |= {layout.ENV_GENERATION: "0", layout.ENV_COLLECTIVE: "nccl", "RANK": "0", "WORLD_SIZE": "1"}
        if share is None:
            return env
        grant = GpuGrant(self.uuid, int(self.total * share) // MIB, int(share * 1000), whole=False)
        budget = memory_limits.memory_budget(
            grant, self.total, context_mib=memory_limits.context_mib(self.total), nccl_mib=0
        )
        return memory_limits.with_limits(env, memory_limits.limit_variables([budget]))

    def used(self) -> int:
        """Bytes in use on the whole GPU, by NVML: no CUDA context of this process is in the figure."""
        command = [sys.executable, "-c", _USED]
        return int(subprocess.run(command, env=self.plain(), capture_output=True, text=True, check=True).stdout)
