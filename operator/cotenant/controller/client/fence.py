"""Fence of leader election: a write leaves this process only while no other replica can lead.

The one place that decides over writing. The client calls it for every write at the last moment before it is sent, after
any waiting in line and again at each retry, because leadership may be lost in the meantime. Reads pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cotenant.controller.client.kube import FencedError


@dataclass(frozen=True, slots=True)
class Fence:
    is_leader: Callable[[], bool]

    def check(self, write: str) -> None:
        """Raise FencedError unless this replica leads; `write` names the call in the message."""
        if not self.is_leader():
            raise FencedError(f"{write} was not sent: this replica does not lead any more")
