"""Command lines and environments of the applications. Pure."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

LOOPBACK: Final = "127.0.0.1"
SHELL: Final = ("sleep", "infinity")
"""A shell is attached to; until then nothing runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """How an application is reached in its pod."""

    port: int
    path: str
    """Begins and ends with `/`: what stands before every address of it."""
    token: str
    """Empty for one that has none of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    command: tuple[str, ...]
    env: Mapping[str, str]
    """Besides that of the pod."""


def application(kind: str, served: Served, command: Sequence[str], home: str) -> Application:
    """Raises ValueError for a kind that is not known. `command`: of a program of one's own."""
    if kind == "JupyterLab":
        return jupyter_lab(served, home)
    if kind == "CodeServer":
        address = f"{LOOPBACK}:{served.port}"
        options = ("--bind-addr", address, "--auth", "password", "--disable-telemetry", "--disable-update-check")
        return Application(command=("code-server", *options, home), env={"PASSWORD": served.token})
    if kind == "Shell":
        return Application(command=SHELL, env={})
    if kind == "Program":
        return Application(command=tuple(command), env={"COTENANT_SESSION_PORT": str(served.port)})
    raise ValueError(f"{kind} is no application of a session")


def jupyter_lab(served: Served, home: str) -> Application:
    """The token is in the environment, not on the command line, which other users of a node may read."""
    options = {
        "ip": LOOPBACK,
        "port": served.port,
        "port_retries": 0,
        "base_url": served.path,
        "root_dir": home,
        "open_browser": False,
        "allow_root": True,
        "allow_remote_access": False,
    }
    words = [f"--ServerApp.{name}={value}" for name, value in options.items()]
    return Application(
        command=(sys.executable, "-m", "jupyterlab", *words),
        env={"JUPYTER_TOKEN": served.token, "JUPYTER_PLATFORM_DIRS": "1"},
    )
