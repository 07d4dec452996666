"""Certificate that a server shows, from the files `tls.crt` and `tls.key` of a folder: a mounted Secret, as a rule.

A Secret that is renewed changes the files; a server that calls `refresh` shows the new one from the next connection on.
"""

from __future__ import annotations

import contextlib
import ssl
from pathlib import Path


class ServingCertificate:
    """Raises OSError or ssl.SSLError where the folder has no certificate with its key."""

    def __init__(self, folder: Path) -> None:
        self._certificate, self._key = folder / "tls.crt", folder / "tls.key"
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._loaded = self._version()
        self._load()

    def refresh(self) -> None:
        """Load the files again if they changed; what cannot be loaded leaves the old certificate in use."""
        with contextlib.suppress(OSError, ssl.SSLError):
            if (version := self._version()) != self._loaded:
                self._load()
                self._loaded = version

    def _load(self) -> None:
        self.context.load_cert_chain(self._certificate, self._key)

    def _version(self) -> tuple[int, int]:
        return self._certificate.stat().st_mtime_ns, self._key.stat().st_mtime_ns
