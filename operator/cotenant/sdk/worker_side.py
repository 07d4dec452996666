"""`with cotenant.worker() as w:`, the side of the training program: its identity, its reports, and when it must leave.

It needs `cotenant_worker`, which is in every pod of a job, and on neither the operator nor the submitting machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any


class Worker:
    """This rank. Outside a job: rank 0 of 1, whose reports go nowhere and which is never asked to leave."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._context = library.context()

    @property
    def rank(self) -> int:
        return int(self._context.rank)

    @property
    def world_size(self) -> int:
        return int(self._context.world_size)

    @property
    def is_leader(self) -> bool:
        """True on rank 0, and never in an evaluator."""
        return bool(self._context.is_leader)

    @property
    def checkpoint_dir(self) -> str | None:
        """A path, or an address for fsspec; None if the job keeps no checkpoints."""
        found = self._context.checkpoint_dir
        return None if found is None else str(found)

    @property
    def resume_from(self) -> str | None:
        """The newest complete checkpoint of an earlier attempt."""
        found = self._context.resume_from
        return None if found is None else str(found)

    def report(self, metrics: Mapping[str, Any] | None = None, *, step: int, of: int = 0, **more: Any) -> None:
        """Report the progress of this rank, with metrics as a mapping or as keywords. Cheap enough for every step."""
        self._library.report(step=step, of=of, metrics={**(metrics or {}), **more})

    def results(self, values: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Final values of the job, as a mapping or as keywords: numbers are averaged over the ranks, texts come from
        rank 0.
        """
        self._library.results({**(values or {}), **more})

    def should_stop(self) -> bool:
        """True when all ranks must save and leave now. Call it once per step, on every rank."""
        return bool(self._library.should_stop())


@contextmanager
def worker() -> Iterator[Worker]:
    """Raises ImportError if the worker's package is not installed, as in an image of your own or on a machine that only
    submits.
    """
    try:
        library = import_module("cotenant_worker")
    except ImportError as error:
        raise ImportError("cotenant.worker() needs the worker's part: pip install 'cotenant[worker]'") from error
    yield Worker(library)
