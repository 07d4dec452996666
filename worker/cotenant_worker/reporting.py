"""The API of a program in a rank: `report`, `should_stop`, `context`, `Saver`.

Everything here also works outside a rank (a laptop, a notebook): then reports go nowhere and no stop is ever due.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cotenant.contract.decoding.reported_values import plain_numbers, plain_values
from cotenant_worker.checkpoints import local_store
from cotenant_worker.hook import cotenant_shim
from cotenant_worker.host import layout
from cotenant_worker.supervision.rank_reports import REPORTED

launcher, heartbeat = cotenant_shim.launcher, cotenant_shim.rank_heartbeat


@dataclass(frozen=True, slots=True)
class Context:
    """The identity of this rank. Outside a job: rank 0 of 1."""

    job: str
    attempt: int
    restart: int
    rank: int
    world_size: int
    local_rank: int
    gpus: tuple[str, ...]
    gpu_memory_bytes: int
    collective: str
    precision: str
    checkpoint_dir: str | None
    """A path, or an address for fsspec."""
    resume_from: Path | None
    data_dir: Path | None = None
    """The folder of the job's first `data`."""
    role: str = "worker"
    """`worker`, `chief` or `evaluator`."""

    @property
    def is_evaluator(self) -> bool:
        return self.role == "evaluator"

    @property
    def is_leader(self) -> bool:
        return self.rank == 0 and not self.is_evaluator


def context() -> Context:
    env = os.environ
    return Context(
        job=env.get("COTENANT_JOB", ""),
        attempt=int(env.get("COTENANT_ATTEMPT", "0")),
        restart=int(env.get(layout.ENV_GENERATION, "0")),
        rank=int(env.get("RANK", "0")),
        world_size=int(env.get("WORLD_SIZE", "1")),
        local_rank=int(env.get("LOCAL_RANK", "0")),
        gpus=tuple(part for part in env.get("CUDA_VISIBLE_DEVICES", "").split(",") if part),
        gpu_memory_bytes=int(env.get(layout.ENV_GPU_MEM, "0")),
        collective=env.get(layout.ENV_COLLECTIVE, "gloo"),
        precision=env.get(layout.ENV_PRECISION, "fp32"),
        checkpoint_dir=env.get(layout.ENV_CHECKPOINT_DIR) or None,
        resume_from=Path(env[layout.ENV_RESUME_FROM]) if env.get(layout.ENV_RESUME_FROM) else None,
        data_dir=Path(env[layout.ENV_DATA_DIR]) if env.get(layout.ENV_DATA_DIR) else None,
        role=env.get("COTENANT_ROLE", "worker"),
    )


def report(metrics: Mapping[str, Any] | None = None, *, step: int, of: int = 0, **more: Any) -> None:
    """Report the progress of this rank. It is cheap enough for every step. Metrics are averaged over the ranks that
    report them.

    Metrics are a mapping, or keywords: `report(step=3, loss=0.5)`, as other libraries take them. A value that is no
    number never makes the program fail: it is left out, and a warning in the job's progress names it.
    """
    numbers, notes = plain_numbers(_plain_of(metrics, more), "metrics")
    _warn(notes)
    heartbeat.report(
        {"op": "report", "step": int(step), "of": int(of), "metrics": numbers, "at_monotonic_s": time.monotonic()}
    )


def results(values: Mapping[str, Any] | None = None, **more: Any) -> None:
    """Final values for `status.results`, as a mapping or as keywords: numbers are averaged over the ranks, text is
    taken from rank 0.

    Other values never make the program fail: they are kept as far as possible, and a warning in the job's progress
    names the key.
    """
    kept, notes = plain_values(_plain_of(values, more), "results")
    heartbeat.flush()
    launcher.send({"op": "results", "values": kept})
    _warn(notes)


def _plain_of(given: Mapping[str, Any] | None, more: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _plain(value) for name, value in {**(given or {}), **more}.items()}


def _plain(value: Any) -> Any:
    """Tensors and arrays of one element, and all that Python converts to a number, as numbers; other values
    unchanged.
    """
    if isinstance(value, bool | int | float | str | bytes | bytearray | os.PathLike):
        return value
    try:
        return float(value.item() if hasattr(value, "item") else value)
    except Exception:  # whatever a foreign type raises: an array of several elements, None, a list
        return value


_WARNINGS_MAX: Final = 16
_warned: set[str] = set()
"""Warnings that were sent. Each is sent once."""


def _warn(notes: list[str]) -> None:
    for note in notes:
        if note not in _warned and len(_warned) < _WARNINGS_MAX:
            _warned.add(note)
            launcher.warn(f"{REPORTED}{note}", note)


# -- leaving in time -----------------------------------------------------------------------------------------------

_noticed = threading.Event()


def should_stop() -> bool:
    """True when this rank must save and leave now.

    Call it once per step, on every rank: all ranks get True at the same call. The first call also takes over SIGTERM,
    so that it does not end this process.
    """
    _listen()
    calls: int = launcher.get_counter("calls") + 1
    launcher.set_counter("calls", calls)
    stop_at: int = launcher.get_counter("stop_at")
    return 0 < stop_at <= calls


def stop_requested() -> bool:
    """True as soon as this rank knows of the stop; other ranks may not know yet. For single-rank programs and
    callbacks.
    """
    _listen()
    return _noticed.is_set() or layout.preempt_file().exists()


def _listen() -> None:
    """Take SIGTERM over from the default action (death), never from a handler of the program. Only the main thread can:
    for a program that trains in another one, the launcher is told not to send it.
    """
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: _noticed.set())
    else:
        launcher.set_counter("listener", os.getpid())


# -- checkpoints ---------------------------------------------------------------------------------------------------


COUNTED_STEPS: Final = "counted_steps"
"""Key in a checkpoint's notes: steps counted when it was written. The checkpoint's own step may number epochs."""


class Saver:
    """The job's checkpoints: `save` on rank 0, `latest` everywhere, `due` by the job's interval. An evaluator reads."""

    def __init__(self, directory: Path | str | None = None, *, keep: int = 2) -> None:
        chosen = directory or os.environ.get(layout.ENV_CHECKPOINT_DIR)
        self.url = str(chosen) if chosen and local_store.is_remote(str(chosen)) else ""
        self.directory = Path(chosen) if chosen and not self.url else None
        self.keep = keep
        self.interval_s = float(os.environ.get("COTENANT_CHECKPOINT_INTERVAL_S", "0"))
        self._last = time.monotonic()

    def save(self, step: int, write: Callable[[Path], None], *, meta: Mapping[str, Any] | None = None) -> None:
        """Rank 0 writes, the others and the evaluator return at once. `write` fills the directory it is given."""
        self._last = time.monotonic()
        if (self.directory is None and not self.url) or not context().is_leader:
            return
        launcher.send({"op": "saving", "step": step})
        counted = launcher.get_counter("step")
        extra = {"world_size": context().world_size, **({COUNTED_STEPS: counted} if counted else {}), **(meta or {})}
        if self.url:
            from cotenant_worker.checkpoints import fsspec_store

            fsspec_store.save(self.url, step, write, meta=extra, keep=self.keep)
        else:
            assert self.directory is not None
            local_store.save(self.directory, step, write, meta=extra, keep=self.keep)
        launcher.send({"op": "saved", "step": step})

    def latest(self) -> local_store.Checkpoint | None:
        """The newest complete checkpoint with verified checksums. The launcher's choice comes first, so that all ranks
        agree.
        """
        found = self._latest()
        counted = found.meta.get(COUNTED_STEPS) if found else None
        if isinstance(counted, int) and counted > 0:
            cotenant_shim.step_counter.resume(counted)
        return found

    def _latest(self) -> local_store.Checkpoint | None:
        if self.url:
            from cotenant_worker.checkpoints import fsspec_store

            return fsspec_store.latest(self.url)
        chosen = context().resume_from
        if chosen is not None and (self.directory is None or chosen.parent == self.directory):
            found = local_store.load(chosen)
            if found is not None:
                return found
        return local_store.latest(self.directory) if self.directory is not None else None

    def due(self) -> bool:
        """True if the job's `checkpoint.interval` has passed since the last save; false without an interval."""
        return self.interval_s > 0 and time.monotonic() - self._last >= self.interval_s
