"""Launchers as plain processes: no Ray, no root. Each has an address of its own on the loopback network."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cotenant.contract import Contract, Progress, Termination
from tests.support.pod_sandbox import contract
from tests.support.well_formed import well_formed

PROGRAMS = Path(__file__).parent / "programs"


@dataclass
class Started:
    process: subprocess.Popen[str]
    directory: Path
    address: str

    def finish(self, deadline_s: float = 60) -> tuple[int, str, Termination]:
        log, _ = self.process.communicate(timeout=deadline_s)
        return (
            self.process.returncode,
            log,
            well_formed(Termination.from_json((self.directory / "termination").read_text())),
        )

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://{self.address}:8099{path}", timeout=5) as answer:
            text: str = answer.read().decode()
        return text

    def progress(self) -> Progress:
        return well_formed(Progress.from_json(self.get("/progress")))


def address_of_its_own() -> str:
    return f"127.{random.randrange(1, 250)}.{random.randrange(250)}.{random.randrange(1, 250)}"


@contextmanager
def launched(directory: Path, document: str, address: str = "", **env: str) -> Iterator[Started]:
    address = address or address_of_its_own()  # the ports are fixed
    (directory / "termination").touch()
    own = {
        "COTENANT_CONTRACT": document,
        "COTENANT_STATE_DIR": str(directory / "state"),
        "COTENANT_TERMINATION_LOG": str(directory / "termination"),
        "POD_IP": address,
        "PATH": os.environ["PATH"],
    }
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "cotenant_worker"],
        env={**own, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield Started(process, directory, address)
    finally:
        process.kill()
        process.wait()


def behave(*words: str, **fields: Any) -> Contract:
    job = contract([1], command=("python", "behave.py", *words), **fields)
    return replace(job, platform={"codePath": str(PROGRAMS), **job.platform})
