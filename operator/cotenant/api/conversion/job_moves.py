"""An administrator's request to move one attempt of a job: the annotation `cotenant.dev/move`.

JSON `{"attempt": 2, "until": "2026-01-01T12:00:00Z", "to": ["n2"], "off": ["n1"], "class": "H100"}`. It concerns this
attempt only, so it moves a job once. After `until` it has no effect, so nothing waits for it for ever. An admission
policy keeps tenants from writing one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from cotenant.contract.decoding.bounded_json import Bounds, Malformed, parse
from cotenant.core.model.objects import Job

BOUNDS: Final = Bounds(bytes_max=64 * 1024, depth_max=3, values_max=4_096)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMove:
    attempt: int
    until: float
    """Unix seconds."""
    nodes: frozenset[str] = frozenset()
    """Move to one of these; empty means any."""
    avoided: frozenset[str] = frozenset()
    """Move off all of these."""
    gpu_class: str = ""
    """Move to GPUs of this class; empty means any that its request names."""

    def refusal(self, job: Job) -> str:
        """Why the job is not moved so; empty if it may be."""
        if not (self.nodes or self.avoided or self.gpu_class):
            return "say where it is to lie: to or off nodes, or a class"
        if self.gpu_class and job.gpu.classes and self.gpu_class not in job.gpu.classes:
            return f"its request names {', '.join(job.gpu.classes)}, and not {self.gpu_class}"
        return ""


def read_move(text: str) -> JobMove | None:
    """The request in the annotation; None if it cannot be read or is empty."""
    found = parse(text, BOUNDS)
    if isinstance(found, Malformed) or not isinstance(found, dict):
        return None
    try:
        attempt, until = found["attempt"], datetime.fromisoformat(found["until"])
    except (KeyError, TypeError, ValueError):
        return None
    nodes, avoided, gpu_class = _names(found.get("to")), _names(found.get("off")), found.get("class", "")
    if type(attempt) is not int or until.tzinfo is None or nodes is None or avoided is None:
        return None
    if not isinstance(gpu_class, str):
        return None
    return JobMove(
        attempt=attempt, until=until.timestamp(), nodes=nodes, avoided=avoided, gpu_class=gpu_class
    )  # fmt: skip


def with_move(job: Job, move: JobMove) -> Job:
    """The job with the requested restriction; unchanged if it is not moved so."""
    if move.refusal(job):
        return job
    gpu = replace(job.gpu, classes=(move.gpu_class,)) if move.gpu_class else job.gpu
    avoided = job.excluded_nodes | move.avoided
    return replace(job, gpu=gpu, excluded_nodes=avoided, only_nodes=move.nodes, move_asked=True)


def _names(given: Any) -> frozenset[str] | None:
    if given is None:
        return frozenset()
    if not isinstance(given, list) or not all(isinstance(one, str) and one for one in given):
        return None
    return frozenset(given)
