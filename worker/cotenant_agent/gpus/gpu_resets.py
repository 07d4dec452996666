"""Resets of GPUs that an administrator asked for: when one may be done, and its result. Pure.

The request is the annotation `cotenant.dev/reset` of the GPUNode. If anybody holds or uses the GPU, the reset is
refused, and the result names who. Otherwise the GPU is no longer handed out, and it is reset after it has been free for
`QUIET_S`. By then the operator knows, and pods of earlier decisions are bound and seen. The driver itself also refuses
a GPU that is in use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

QUIET_S: Final = 30.0
MESSAGE_CHARS_MAX: Final = 300
PENDING: Final = "Reset: an administrator asked for it, and it waits for the GPU to stay free"


class ResetState(StrEnum):
    DONE = "Done"
    REFUSED = "Refused"
    """Somebody holds the GPU, or it cannot be reset."""
    FAILED = "Failed"
    """The driver did not reset it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReset:
    """Outcome of the last reset that was asked for."""

    state: ResetState
    message: str
    at: float
    """Unix seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUse:
    """What keeps GPUs from being reset, at one moment."""

    known: bool
    """True if the pods of this node have been listed."""
    whole: frozenset[str]
    """UUIDs of the GPUs that can be reset; MIG instances cannot."""
    by: Mapping[str, str]
    """UUID → who holds or uses it. Free GPUs are missing."""


@dataclass(frozen=True, slots=True)
class GpuResets:
    """The state between polls."""

    waiting: Mapping[str, float] = field(default_factory=dict)
    """UUID → when the reset was asked for."""
    running: str = ""
    """UUID of the GPU that the driver resets now."""
    results: Mapping[str, GpuReset] = field(default_factory=dict)

    @property
    def pending(self) -> frozenset[str]:
        """UUIDs that are not handed out until their reset is done."""
        return frozenset(self.waiting) | ({self.running} if self.running else frozenset())


def asked(resets: GpuResets, uuids: Iterable[str], now: float) -> GpuResets:
    """State with these requests. A repeated request for a waiting GPU changes nothing."""
    new = {uuid: now for uuid in uuids if uuid not in resets.pending}
    return replace(resets, waiting={**resets.waiting, **new})


def judged(resets: GpuResets, use: GpuUse, now: float) -> GpuResets:
    """Judge after one look. GPUs in use are refused; of those that stayed free, the first is reset next.

    Resets run one at a time, because the driver is closed for each. While one runs, nothing is judged.
    """
    if resets.running or not use.known:
        return resets
    refused = {
        uuid: why
        for uuid in resets.waiting
        if (why := use.by.get(uuid) or ("" if uuid in use.whole else "it is no whole GPU of this node"))
    }
    waiting = {uuid: since for uuid, since in resets.waiting.items() if uuid not in refused}
    results = {uuid: _result(ResetState.REFUSED, why, now) for uuid, why in refused.items()}
    ready = sorted(uuid for uuid, since in waiting.items() if now - since >= QUIET_S)
    running = ready[0] if ready else ""
    waiting.pop(running, None)
    return GpuResets(waiting, running, {**resets.results, **results})


def finished(resets: GpuResets, uuid: str, error: str, now: float) -> GpuResets:
    """Note the driver's answer; `error` is empty if the GPU was reset."""
    state = ResetState.FAILED if error else ResetState.DONE
    result = _result(state, error or "the driver has reset it", now)
    return replace(resets, running="" if resets.running == uuid else resets.running,
                   results={**resets.results, uuid: result})  # fmt: skip


def _result(state: ResetState, message: str, now: float) -> GpuReset:
    return GpuReset(state=state, message=message[:MESSAGE_CHARS_MAX], at=now)
