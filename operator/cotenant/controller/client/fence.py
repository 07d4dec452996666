"""Fence of leader election: a write leaves this process only while no other replica can lead.

The one place that decides over writing. The client calls it for every write at the last moment before it is sent, after
any waiting in line and again at each retry, because leadership may be lost in the meantime. Reads pass.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cotenant.controller.client.kube import FencedError

ARRIVE_S: Final = 1.5
"""Time that a write has to arrive after it was sent: the gap of `leader.election`, from one leader to the next."""


@dataclass(slots=True)
class Fence:
    is_leader: Callable[[], bool]
    clock: Callable[[], float] = time.monotonic
    _passed_at: float = -math.inf
    """Clock time at which a write was let through last."""

    def check(self, write: str) -> None:
        """Raise FencedError unless this replica leads; `write` names the call in the message."""
        if not self.is_leader():
            raise FencedError(f"{write} was not sent: this replica does not lead any more")
        self._passed_at = self.clock()

    async def settle(self) -> None:
        """Return when every write has had its time to arrive, also one whose sender was cancelled while it was sent.

        For a leader that stops writing and gives its Lease away: what arrives later would be written beside the next.
        """
        await asyncio.sleep(max(0.0, self._passed_at + ARRIVE_S - self.clock()))
