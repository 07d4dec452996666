"""Faults of an API server, for `FakeKube`: which call is hit, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal


@dataclass(kw_only=True)
class Fault:
    """What befalls the nth call that matches a pattern such as `PATCH trainingjobs/train/status` or `POST pods/*`."""

    call: str
    nth: int = 1
    first: Callable[[], object] = lambda: None
    """Runs before the call: the write of another client, the end of a leadership."""
    lost: Literal["", "request", "answer"] = ""
    """Raises UnreachableError: with the request lost nothing has happened, with the answer lost it has."""
    answer: Any = None
    """Given instead of what the server would do and say: a refusal, or an object as it was long ago."""


@dataclass
class Faults:
    """Faults that have not struck yet."""

    pending: list[Fault] = field(default_factory=list)

    def add(self, *faults: Fault) -> None:
        self.pending += faults

    def strike(self, call: str) -> Fault:
        """Take the fault whose turn this call is, or one without effect; runs `first` of it.

        Faults of one pattern strike one after the other: each counts the calls since the one before it.
        """
        struck = next((fault for fault in self.pending if fnmatchcase(call, fault.call)), Fault(call=call))
        struck.nth -= 1
        if struck.nth:
            return Fault(call=call)
        self.pending = [fault for fault in self.pending if fault is not struck]
        struck.first()
        return struck
