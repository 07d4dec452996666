"""The body of a watch: one JSON object in each line, cut anywhere by the network. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from cotenant.controller.client.kube import Document, UnreachableError, VersionGoneError, WatchEvent, version_of

LINE_BYTES_MAX = 32 << 20
"""Far beyond what etcd takes: a line that does not end is none."""
GONE = 410


@dataclass(slots=True)
class WatchStream:
    name: str
    """What is watched, for messages."""
    _rest: bytes = b""

    def feed(self, chunk: bytes) -> list[WatchEvent]:
        """Events whose lines end in this chunk. Raises VersionGoneError or UnreachableError if the server ends the
        watch.
        """
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > LINE_BYTES_MAX:
            raise UnreachableError(f"watch of {self.name}: a line of more than {LINE_BYTES_MAX} bytes")
        return [self._event(line) for line in lines if line.strip()]

    def _event(self, line: bytes) -> WatchEvent:
        try:
            raw = orjson.loads(line)
            kind, document = str(raw["type"]), raw["object"]
            if kind == "ERROR":
                self._raise(document)
            return WatchEvent(kind, document, version_of(document))
        except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError, ValueError) as error:
            shown = line[:100].decode(errors="replace")
            raise UnreachableError(f"watch of {self.name}: not an event: {shown!r}") from error

    def _raise(self, status: Document) -> None:
        message = f"watch of {self.name} ended: {status.get('message', 'for no reason given')}"
        raise VersionGoneError(message) if status.get("code") == GONE else UnreachableError(message)
