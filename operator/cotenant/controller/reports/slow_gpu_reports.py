"""Findings that a GPU is slow, and when they make the GPU suspect. Pure.

A finding comes from a tenant's program, and a suspect GPU is handed out last, to everybody. So one tenant's finding is
only a note for the administrator. A GPU becomes suspect if jobs of different queues and different namespaces found it
slow within `COUNTS_S`. A report counts for that long, then it fades. Reports are kept in annotations of the GPUNode,
which tenants cannot write: `slow-reports.cotenant.dev/<UUID>: <queue>/<namespace>=<time>,…`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from cotenant import names
from cotenant.api.scalars.fields import moment, show_time

COUNTS_S = 24 * 3600.0
MOST = 8
"""Reporters that are kept for one GPU, newest first."""
_TIME = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True, order=True)
class Reporter:
    """Queue and namespace of the job."""

    queue: str
    namespace: str


def changes(annotations: Mapping[str, str], found: Iterable[tuple[str, Reporter]], now: float) -> dict[str, str | None]:
    """Annotations to write (None: remove) on a GPUNode when these GPUs, by UUID, were found slow now."""
    prefix = f"{names.ANNOTATION_SLOW_REPORTS}/"
    reports = {
        key.removeprefix(prefix): _counting(text, now) for key, text in annotations.items() if key.startswith(prefix)
    }
    for uuid, reporter in found:
        reports.setdefault(uuid, {})[reporter] = now
    wanted: dict[str, str | None] = {}
    for uuid, own in reports.items():
        kept = dict(sorted(own.items(), key=lambda one: (-one[1], one[0]))[:MOST])
        wanted[f"{prefix}{uuid}"] = _written(kept) or None
        wanted[f"{names.ANNOTATION_SUSPECT}/{uuid}"] = _suspicion(kept) or None
    return {key: text for key, text in wanted.items() if annotations.get(key) != text}


def _counting(text: str, now: float) -> dict[Reporter, float]:
    """Reports that still count. Those that cannot be read, or have a future time, do not."""
    found = {}
    for part in text.split(","):
        who, _, when = part.partition("=")
        queue, _, namespace = who.partition("/")
        try:
            at = datetime.strptime(when, _TIME).replace(tzinfo=UTC).timestamp()
        except ValueError:
            continue
        if queue and namespace and 0 <= now - at < COUNTS_S:
            found[Reporter(queue, namespace)] = at
    return found


def _written(reports: Mapping[Reporter, float]) -> str:
    return ",".join(f"{who.queue}/{who.namespace}={show_time(moment(at))}" for who, at in sorted(reports.items()))


def _suspicion(reports: Mapping[Reporter, float]) -> str:
    """Text for everybody who may see the node, without names; empty if tenants do not agree."""
    queues, namespaces = {who.queue for who in reports}, {who.namespace for who in reports}
    if len(queues) < 2 or len(namespaces) < 2:
        return ""
    last = show_time(moment(max(reports.values())))
    return f"jobs of {len(queues)} queues found it far slower than their other GPUs, last {last}"
