"""Resets of GPUs by an administrator's word: when one may be done, and what became of it. Pure.

The word is the annotation `cotenant.dev/reset` of the GPUNode. A GPU that anybody holds or is on is refused, with who.
Else it is not handed out from then on, and is reset once it has stayed free for `QUIET_S`: by then the operator knows,
and pods of decisions that it took before are bound and seen. The driver refuses in its turn what is in use.
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
    """Somebody holds the GPU, or it is not one that can be reset."""
    FAILED = "Failed"
    """The driver did not do it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReset:
    """Outcome of the last reset that was asked for."""

    state: ResetState
    message: str
    at: float
    """Unix seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUse:
    """Use that keeps GPUs from being reset, at one moment."""

    known: bool
    """The pods of this node have been listed."""
    whole: frozenset[str]
    """UUIDs of the GPUs that can be reset: no MIG instances."""
    by: Mapping[str, str]
    """UUID → who holds it or is on it; nothing of those that are free."""


@dataclass(frozen=True, slots=True)
class GpuResets:
    """The state between polls."""

    waiting: Mapping[str, float] = field(default_factory=dict)
    """UUID → when it was asked for."""
    running: str = ""
    """UUID of the one that the driver resets now."""
    results: Mapping[str, GpuReset] = field(default_factory=dict)

    @property
    def pending(self) -> frozenset[str]:
        """UUIDs that are not handed out meanwhile."""
        return frozenset(self.waiting) | ({self.running} if self.running else frozenset())


def asked(resets: GpuResets, uuids: Iterable[str], now: float) -> GpuResets:
    """State with these asked for; asking again for one that waits changes nothing."""
    new = {uuid: now for uuid in uuids if uuid not in resets.pending}
    return replace(resets, waiting={**resets.waiting, **new})


def judged(resets: GpuResets, use: GpuUse, now: float) -> GpuResets:
    """Judges after one look: those in use are refused, and of those that stayed free the first is the next to run.

    One at a time, because the driver is closed meanwhile. While it runs nothing is judged: nothing was looked at.
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
    """Notes what the driver has answered; `error` is empty where the GPU was reset."""
    state = ResetState.FAILED if error else ResetState.DONE
    result = _result(state, error or "the driver has reset it", now)
    return replace(resets, running="" if resets.running == uuid else resets.running,
                   results={**resets.results, uuid: result})  # fmt: skip


def _result(state: ResetState, message: str, now: float) -> GpuReset:
    return GpuReset(state=state, message=message[:MESSAGE_CHARS_MAX], at=now)
