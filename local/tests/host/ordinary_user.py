"""How a test that runs as root becomes an ordinary user, with a Python that this user may start."""

import dataclasses
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


@dataclasses.dataclass(frozen=True)
class User:
    """An ordinary user, and the flags of unshare(1) that give him his ids."""

    uid: int
    flags: tuple[str, ...]

    def become(self) -> list[str]:
        """Words in front of a command that run it as this user; none if it is the current user."""
        if os.geteuid() != 0:
            return []
        return ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups"]


def readable_python() -> tuple[str, str]:
    """An interpreter that any user can start, and the path that makes it see this environment."""
    site = next(path for path in sys.path if path.endswith("site-packages"))
    sources = [str(ROOT / room) for room in ("operator", "worker", "local")]
    return "/usr/bin/python3", ":".join([*sources, site])
