"""How long a session may be idle and live: what its spec says, within what its queue allows. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cotenant.api.resources.queues import Queue
from cotenant.api.resources.sessions.session import SessionSpec
from cotenant.core.model.formatting import format_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTime:
    seconds: int
    source: str
    """What sets it, in words: `spec.idleTimeout: 1h`, or the queue that allows no more."""
    is_of_queue: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTimes:
    idle: SessionTime
    lifetime: SessionTime


def times_of(spec: SessionSpec, queues: Mapping[str, Queue]) -> SessionTimes:
    """The shortest times of the session, its queue and the queues above it."""
    idle = _own("idleTimeout", spec.idle_timeout)
    lifetime = _own("maxLifetime", spec.max_lifetime)
    for queue in _path(spec.queue, queues):
        limits = queue.spec.sessions
        if limits is not None:
            idle = _bounded(idle, "idleTimeout", limits.idle_timeout, queue)
            lifetime = _bounded(lifetime, "maxLifetime", limits.max_lifetime, queue)
    return SessionTimes(idle=idle, lifetime=lifetime)


def _own(field: str, seconds: int) -> SessionTime:
    return SessionTime(seconds=seconds, source=f"spec.{field}: {format_duration(seconds)}")


def _bounded(time: SessionTime, field: str, most: int | None, queue: Queue) -> SessionTime:
    if most is None or time.seconds <= most:
        return time
    source = f"queue {queue.metadata.final_name} allows spec.{field}: {format_duration(most)}"
    return SessionTime(seconds=most, source=source, is_of_queue=True)


def _path(name: str | None, queues: Mapping[str, Queue]) -> Iterator[Queue]:
    """The queue and those above it. If parents form a circle, it ends where it began."""
    seen: set[str] = set()
    while name is not None and name in queues and name not in seen:
        seen.add(name)
        yield queues[name]
        name = queues[name].spec.parent
