"""This process's own certificate for the API of questions, if none is mounted. It is renewed before it expires."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cotenant.serving.self_signed import SelfSigned, utc_now


@dataclass(slots=True)
class OwnCertificate:
    folder: Path
    server: str
    """Name that the API server asks for."""
    clock: Callable[[], datetime] = utc_now
    _current: SelfSigned | None = None
    _before: SelfSigned | None = None

    def bundle(self) -> bytes:
        """Certificates for the API server to trust: this one, and the last one, which may be in use for a while."""
        now = self.clock()
        if self._current is None or not self._current.serves([self.server], now):
            self._before, self._current = self._current, SelfSigned.made([self.server], now)
            self._current.write(self.folder)
        return self._current.certificate + (self._before.certificate if self._before else b"")
