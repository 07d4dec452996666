"""Sweeps and sessions for programs without an event loop."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

from cotenant.sdk.objects.async_session import AsyncSession
from cotenant.sdk.objects.async_sweep import AsyncSweep, BestResult, TrialResult
from cotenant.sdk.objects.forwarded_port import forwarded
from cotenant.sdk.objects.object_handle import Document, ObjectHandle


@dataclass(frozen=True, slots=True, repr=False)
class SweepHandle(ObjectHandle[AsyncSweep]):
    """One Sweep. Its state is read each time. If the program ends, the sweep goes on."""

    def trials(self) -> list[TrialResult]:
        """All trials that have begun, by number."""
        return self._loop.call(self._object.trials())

    def best(self) -> BestResult | None:
        """The best so far; None until a trial has a result."""
        return self._loop.call(self._object.best())

    def result(self, timeout_s: float | None = None) -> BestResult:
        """The best, when all trials are over. Raises JobFailed if the sweep failed, or JobTimeout."""
        return self._loop.call(self._object.result(timeout_s))


@dataclass(frozen=True, slots=True, repr=False)
class SessionHandle(ObjectHandle[AsyncSession]):
    """One Session. If the program ends, the session goes on."""

    _open: tuple[str, ...]
    """The verb `session open`, run as the client's caller."""

    def ready(self, timeout_s: float | None = None) -> Document:
        """The status once it runs. Raises JobFailed if it never will, or JobTimeout."""
        return self._loop.call(self._object.ready(timeout_s))

    def opened(self, timeout_s: float = 600.0) -> AbstractContextManager[str]:
        """Its address on this machine, with its token, in a `with` block while its port is forwarded.

        Needs kubectl on the PATH, and the caller's right to `pods/exec` and `pods/portforward`. Waits until the session
        runs. Raises Refused if it does not run in time, and ValueError for a Shell, which has no address.
        """
        if self._loop.call(self._object.document())["spec"]["application"] == "Shell":
            raise ValueError(f"{self.name} is a Shell, which has no address: kubectl cotenant session open {self.name}")
        return forwarded((*self._open, f"{self.namespace}/{self.name}", "--timeout", f"{timeout_s:g}"))
