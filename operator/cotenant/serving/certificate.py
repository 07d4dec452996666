"""Certificate that a server shows, from the files `tls.crt` and `tls.key` of a folder: a mounted Secret, as a rule.

A Secret that is renewed changes the files; a server that calls `refresh` shows the new one from the next connection on.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from pathlib import Path
from typing import Final

LOOK_S: Final = 5.0
"""Between two looks at the files."""


class ServingCertificate:
    """Raises OSError or ssl.SSLError if the folder has no certificate with its key. With `may_come_later` it does not:
    connections fail until `refresh` finds one, because a Secret may be mounted before somebody has filled it.
    """

    def __init__(self, folder: Path, *, may_come_later: bool = False) -> None:
        self._certificate, self._key = folder / "tls.crt", folder / "tls.key"
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._loaded: tuple[int, int] | None = None
        if may_come_later:
            self.refresh()
            return
        self._loaded = self._version()
        self._load()

    def refresh(self) -> None:
        """Load the files again if they changed; what cannot be loaded leaves the old certificate in use."""
        with contextlib.suppress(OSError, ssl.SSLError):
            if (version := self._version()) != self._loaded:
                self._load()
                self._loaded = version

    async def keep_fresh(self) -> None:
        """Look at the files for as long as the task lives."""
        while True:
            self.refresh()
            await asyncio.sleep(LOOK_S)

    def _load(self) -> None:
        self.context.load_cert_chain(self._certificate, self._key)

    def _version(self) -> tuple[int, int]:
        return self._certificate.stat().st_mtime_ns, self._key.stat().st_mtime_ns
