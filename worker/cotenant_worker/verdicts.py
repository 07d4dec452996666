"""The last words of a pod: a line in its log, and the termination message that the operator reads."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from pathlib import Path

from cotenant import names
from cotenant.contract import Termination


def say(text: str) -> None:
    print(f"cotenant: {text}", file=sys.stderr, flush=True)  # noqa: T201 - the pod's log


def write_termination(termination: Termination, env: Mapping[str, str]) -> None:
    path = env.get("COTENANT_TERMINATION_LOG", names.TERMINATION_PATH)
    with contextlib.suppress(OSError):
        Path(path).write_text(termination.to_json())
