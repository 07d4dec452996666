"""Changes that were proposed and not applied yet. Each can be applied once, as it was shown, for some time."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

LIFE_S: Final = 600.0
KEPT: Final = 32
Change = Callable[[], Awaitable[dict[str, Any]]]


class UnknownProposalError(ValueError):
    """The proposal does not exist, was applied, or is too old."""


@dataclass(slots=True)
class Proposals:
    _open: dict[str, tuple[float, Change]] = field(default_factory=dict)

    def add(self, change: Change, now: float) -> str:
        """Store a proposal, and return the name to apply it by. The oldest proposals are dropped."""
        self._forget(now)
        while len(self._open) >= KEPT:
            del self._open[next(iter(self._open))]
        name = secrets.token_hex(8)
        self._open[name] = (now, change)
        return name

    def take(self, name: str, now: float) -> Change:
        """Raises UnknownProposalError."""
        self._forget(now)
        if name not in self._open:
            raise UnknownProposalError(
                f"there is no proposal {name!r}: each is applied once, within {LIFE_S / 60:.0f} minutes; make a new one"
            )
        return self._open.pop(name)[1]

    def _forget(self, now: float) -> None:
        self._open = {name: one for name, one in self._open.items() if now - one[0] <= LIFE_S}
