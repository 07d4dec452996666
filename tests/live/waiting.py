"""Waits for what another process does. Deadlines are seconds of an idle machine (`cotenant_local.host.patience`)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from cotenant_local.host.patience import Patience, stretched

T = TypeVar("T")


def wait_until(
    ask: Callable[[], T | None], what: str | Callable[[], object], *, seconds: float = 150.0, pause_s: float = 0.2
) -> T:
    """The first true answer. Fails after the deadline with `what`: what was waited for, or what tells how it is now.

    A field of a document that is missing (LookupError) is not there yet.
    """
    patience = Patience(seconds)
    while True:
        missing = ""
        try:
            if answer := ask():
                return answer
        except LookupError as error:
            missing = f" ({error!r})"
        assert not patience.exhausted(), f"not within {patience}: {what() if callable(what) else what}{missing}"
        time.sleep(pause_s)


def timeout(idle_s: float) -> str:
    """A flag of kubectl and Helm: "--timeout=240s" for 120 seconds of an idle machine, if this one is half as fast."""
    return f"--timeout={stretched(idle_s):.0f}s"
