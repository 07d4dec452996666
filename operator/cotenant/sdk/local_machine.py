"""`Client.local()`: the verbs of `Client` with processes of this machine, to try a program before it is submitted.

There is no queue and no isolation. Ranks are processes with torchrun's variables, in a folder of their own, and their
reports are read as from a cluster. Checkpoints are in that folder, whatever path the job names, until the job is
deleted or the client is closed.
"""

from __future__ import annotations

import base64
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from cotenant.sdk.errors import JobTimeoutError, MissingObjectError, failure
from cotenant.sdk.job import JobRequest
from cotenant.sdk.local_reports import LocalReports
from cotenant.sdk.objects.cluster_verbs import ClusterVerbs
from cotenant.sdk.plan import SubmissionPlan

NAMESPACE: Final = "local"
LOOK_S: Final = 0.05
LEAVE_S: Final = 10.0
"""Time for ranks that are asked to end."""
TAIL_LINES: Final = 100
CHECKPOINTS: Final = "checkpoints"
Document = dict[str, Any]


@dataclass(slots=True)
class LocalMachine(ClusterVerbs):
    namespace: str = NAMESPACE
    queue: str = NAMESPACE
    _runs: dict[str, LocalRun] = field(default_factory=dict)

    def __enter__(self) -> LocalMachine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all running ranks, and remove their files."""
        for run in self._runs.values():
            run.delete()
        self._runs.clear()

    def plan(self, job: JobRequest) -> SubmissionPlan:
        """The job starts, because this machine is not shared. Raises InvalidJob, as a cluster would refuse it."""
        manifest, code = job.documents(self.namespace, self.queue, secrets.token_hex(3))
        workers = workers_of(manifest["spec"])
        asks = f"{workers} process{'es' if workers > 1 else ''}"
        return SubmissionPlan(manifest, code, {"outcome": "Starts", "asks": asks, "nodes": {"this machine": workers}})

    def submit(self, job: JobRequest | SubmissionPlan) -> LocalRun:
        plan = job if isinstance(job, SubmissionPlan) else self.plan(job)
        name = plan.manifest["metadata"]["name"]
        if name in self._runs:
            self._runs[name].delete()
        run = self._runs[name] = LocalRun(name, plan)
        run.start()
        return run

    def map(self, job: JobRequest, arguments: Iterable[Sequence[object]]) -> list[LocalRun]:
        """One job for each list of arguments, one after the other, because there is one machine."""
        runs = []
        for index, words in enumerate(arguments):
            name = f"{job.name}-{index}" if job.name else ""
            runs.append(self.submit(replace(job, name=name, args=(*job.args, *words))))
            runs[-1].wait()
        return runs

    def get(self, name: str) -> LocalRun:
        if name not in self._runs:
            raise MissingObjectError(f"no job {name} was submitted here")
        return self._runs[name]

    def runs(self) -> list[LocalRun]:
        return [self._runs[name] for name in sorted(self._runs)]

    def offer(self) -> list[Document]:
        """Nothing: this machine is not shared, so nothing is granted."""
        return []

    def queues(self) -> list[Document]:
        return []


class LocalRun:
    """The ranks of one job as processes."""

    def __init__(self, name: str, plan: SubmissionPlan) -> None:
        self.name = name
        self.namespace = NAMESPACE
        self._spec: Document = plan.manifest["spec"]
        self._workers = workers_of(self._spec)
        self._folder = Path(tempfile.mkdtemp(prefix="cotenant-"))
        self._code: Document = plan.code or {}
        self._ranks: list[subprocess.Popen[bytes]] = []
        self._reports = LocalReports(self._folder)
        self._left = threading.Event()
        """True when no rank is left."""
        self._ended = threading.Event()
        self._suspended = False
        self._starts = 0
        self._status: Document = {"phase": "Pending"}

    def start(self) -> None:
        for name, text in (self._code.get("data") or {}).items():
            (self._folder / name).write_text(text)
        for name, text in (self._code.get("binaryData") or {}).items():
            (self._folder / name).write_bytes(base64.b64decode(text))
        (self._folder / CHECKPOINTS).mkdir()
        self._start_ranks()

    def _start_ranks(self) -> None:
        self._starts += 1
        self._left.clear()
        self._ranks = []
        self._reports.listen()
        port = _free_port()
        for rank in range(self._workers):
            with self._log(rank).open("ab") as out:
                process = subprocess.Popen(
                    self._words(), cwd=self._folder, env=self._environment(rank, port), stdout=out, stderr=out
                )
            self._ranks.append(process)
        self._status = {"phase": "Running"}
        threading.Thread(target=self._supervise, name=f"cotenant-{self.name}", daemon=True).start()

    @property
    def phase(self) -> str:
        return str(self._status["phase"])

    def status(self) -> Document:
        return self._status | {"progress": self._reports.progress()}

    def why(self) -> Document:
        standing = "Finished" if self._ended.is_set() else "Suspended" if self.phase == "Suspended" else "Admitted"
        return {"standing": standing, "queue": NAMESPACE}

    def events(self) -> Iterator[Document]:
        """The status at each change, until the job has ended."""
        last: Document | None = None
        while True:
            ended = self._ended.is_set()
            if (now := self.status()) != last:
                last = now
                yield now
            if ended:
                return
            self._ended.wait(LOOK_S)

    def logs(self, *, rank: int | None = None, follow: bool = False, tail: int | None = None) -> Iterator[str]:
        """Lines of all ranks, one rank after the other, or of one rank."""
        for one in range(len(self._ranks)) if rank is None else (rank,):
            lines = self._lines(one, follow=follow)
            yield from lines if tail is None or follow else list(lines)[-tail:]

    def wait(self, timeout_s: float | None = None) -> Document:
        if not self._ended.wait(timeout_s):
            raise JobTimeoutError(f"{self.name} has not ended after {timeout_s:g} s")
        return self.status()

    def result(self, timeout_s: float | None = None) -> Document:
        status = self.wait(timeout_s)
        if status["phase"] != "Succeeded":
            raise failure(f"{self.namespace}/{self.name}", status)
        return self._reports.results()

    def stop(self) -> None:
        """Ask the ranks to end. They may save. `resume` starts them again from their checkpoint."""
        self._suspended = True
        self._ask_to_end()

    def resume(self) -> None:
        """Start the ranks again, after all that were asked to end have left. Does nothing for a job that ended by
        itself.
        """
        if not self._suspended:
            return
        self._left.wait()
        self._suspended = False
        if not self._ended.is_set():
            self._start_ranks()

    def delete(self) -> None:
        self._ask_to_end()
        if self._ranks and not self._left.wait(LEAVE_S):
            for process in self._ranks:
                process.kill()
            self._left.wait()
        self._ended.set()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _ask_to_end(self) -> None:
        for process in self._ranks:
            if process.poll() is None:
                process.terminate()

    def __repr__(self) -> str:
        return f"LocalRun({self.name})"

    def _words(self) -> list[str]:
        runtime = self._spec["runtime"]
        words = [*runtime["command"], *runtime.get("args", ())]
        return [sys.executable if words[0] in {"python", "python3"} else words[0], *words[1:]]

    def _environment(self, rank: int, port: int) -> dict[str, str]:
        workers = str(self._workers)
        own = {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": workers,
            "LOCAL_WORLD_SIZE": workers,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "COTENANT_JOB": self.name,
            "COTENANT_ATTEMPT": str(self._starts),
            **self._checkpoints(),
            "COTENANT_STATE_DIR": str(self._folder),
            "PYTHONUNBUFFERED": "1",
            "PYTHONPATH": os.pathsep.join([str(self._folder), *filter(None, [os.environ.get("PYTHONPATH")])]),
        }
        given = {one["name"]: one.get("value", "") for one in self._spec["runtime"].get("env", ())}
        return {**os.environ, **given, **own}

    def _checkpoints(self) -> dict[str, str]:
        """The folder where ranks save, and the newest complete checkpoint if the worker's package is installed."""
        if not self._spec.get("checkpoint"):
            return {}
        folder = self._folder / CHECKPOINTS
        try:
            newest = import_module("cotenant_worker.checkpoints.local_store").latest(folder)
        except ImportError:
            newest = None
        found = {} if newest is None else {"COTENANT_RESUME_FROM": str(newest.path)}
        return {"COTENANT_CHECKPOINT_DIR": str(folder), **found}

    def _supervise(self) -> None:
        """Run until all ranks have ended. If one fails, the others are asked to end. A stopped rank waits for
        `resume`.
        """
        failed: int | None = None
        while None in (codes := [process.poll() for process in self._ranks]):
            if failed is None and any(codes):
                failed = next(rank for rank, code in enumerate(codes) if code)
                self._ask_to_end()
            time.sleep(LOOK_S)
        if failed is None:
            failed = next((rank for rank, code in enumerate(codes) if code), None)
        self._reports.close()
        if self._suspended:
            self._status = {"phase": "Suspended"}
        else:
            self._status = {"phase": "Succeeded"} if failed is None else self._failed(failed)
            self._ended.set()
        self._left.set()

    def _failed(self, rank: int) -> Document:
        code = self._ranks[rank].returncode
        tail = list(self._lines(rank, follow=False))[-TAIL_LINES:]
        message = f"rank {rank} ended with exit code {code}" if code > 0 else f"rank {rank} was ended by signal {-code}"
        ended = {"rank": rank, "code": code, "tail": tail}
        return {"phase": "Failed", "reason": "ProgramFailed", "message": message, "lastExit": ended}

    def _log(self, rank: int) -> Path:
        return self._folder / f"rank-{rank}.log"

    def _lines(self, rank: int, *, follow: bool) -> Iterator[str]:
        with self._log(rank).open(errors="replace") as file:
            rest = ""
            while True:
                over = self._ended.is_set() or not follow
                while chunk := file.readline():
                    rest += chunk
                    if rest.endswith("\n"):
                        yield rest[:-1]
                        rest = ""
                if over:
                    break
                self._ended.wait(LOOK_S)
            if rest:
                yield rest


def workers_of(spec: Document) -> int:
    """Number of ranks. No profile is known here: a job that leaves the number to its profile has one."""
    return int(spec.get("workers", 1))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
