"""Follows the log of a pod until its container ends, also if the stream breaks.

A load balancer ends quiet streams, an API server restarts, a kubelet rotates its files. So lines are requested with
their times. If a stream ends before the container does, it is opened again after the last line that was shown.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

from cotenant.cli.errors import EXIT_NOT_FOUND, EXIT_UNAVAILABLE, UserError
from cotenant.cli.terminal.connection import Connection
from cotenant.cli.terminal.refusals import BadRequestError

LONGEST_PAUSE_S: Final = 30.0
FAILURES_MAX: Final = 12
"""After this many failed tries in a row, about five minutes, the log is given up."""
_OVER: Final = frozenset({"Succeeded", "Failed"})
_Moment = tuple[datetime, str]


@dataclass(slots=True)
class LogPosition:
    """The last line that was shown: its time, and how many lines with that time were shown."""

    last: _Moment | None = None
    shown_then: int = 0

    @property
    def query(self) -> dict[str, str]:
        """Query parameters for the lines after this position. The API server accepts whole seconds only."""
        return {} if self.last is None else {"sinceTime": f"{self.last[0]:%Y-%m-%dT%H:%M:%SZ}"}

    def new(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """The lines of one stream that were not shown yet, without their times.

        Lines are skipped only up to the last one that was shown, because the two outputs of a container may be out of
        order.
        """
        resumed, repeated = self.last, self.shown_then
        for line in lines:
            moment, text = _timed(line)
            if resumed is not None:
                if moment is None or moment < resumed:
                    continue
                if moment == resumed and repeated:
                    repeated -= 1
                    continue
                resumed = None
            if moment is not None:
                self.shown_then = self.shown_then + 1 if moment == self.last else 1
                self.last = moment
            yield text


def _timed(line: bytes) -> tuple[_Moment | None, bytes]:
    """A line's time, in nanoseconds, and its text. None if the line does not start with a time."""
    stamp, _, text = line.partition(b" ")
    seconds, point, rest = stamp.decode(errors="replace").partition(".")
    digits = len(rest) - len(rest.lstrip("0123456789"))
    fraction, zone = (rest[:digits], rest[digits:]) if point else ("", "")
    try:
        moment = datetime.fromisoformat(seconds + zone)
        return (moment.astimezone(UTC), fraction.ljust(9, "0")), text
    except ValueError:
        return None, line


def whole_lines(chunks: Iterable[bytes], *, last_counts: bool) -> Iterator[bytes]:
    """Lines without their ends. If the stream may have been cut, the unfinished last line is dropped."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
    if rest and last_counts:
        yield rest


def follow(connection: Connection, log: str, query: Mapping[str, str], *, pod: str, pause_s: float) -> Iterator[bytes]:
    """Lines of the log at this path, each with its end, until the container of its pod ends. Raises UserError."""
    position, over, failures = LogPosition(), False, 0
    while failures < FAILURES_MAX:
        asked = {**query, "follow": str(not over).lower(), "timestamps": "true", **position.query}
        if position.last is not None:
            asked.pop("tailLines", None)
        before = (position.last, position.shown_then)
        try:
            stream = connection.stream(f"{log}?{urlencode(asked)}", endless=not over)
            for line in position.new(whole_lines(stream, last_counts=over)):
                yield line + b"\n"
            if over:
                return
            over = _has_ended(connection.read(pod))
            failed = False
        except BadRequestError:  # its container waits to start
            time.sleep(pause_s)
            continue
        except UserError as error:
            if error.exit_code == EXIT_NOT_FOUND and position.last is not None:
                return  # the pod was deleted
            failed = error.exit_code == EXIT_UNAVAILABLE
            if not failed or position.last is None or failures + 1 == FAILURES_MAX:
                raise
        failures = failures + 1 if failed and (position.last, position.shown_then) == before else int(failed)
        if not over:
            time.sleep(min(LONGEST_PAUSE_S, pause_s * 2 ** max(0, failures - 1)))


def _has_ended(pod: Mapping[str, Any]) -> bool:
    status = pod.get("status") or {}
    states = [one.get("state") or {} for one in status.get("containerStatuses") or ()]
    return status.get("phase") in _OVER or bool(states and all("terminated" in state for state in states))
