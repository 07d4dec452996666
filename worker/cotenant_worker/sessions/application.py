"""Command lines and environments of the applications. Pure."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

LOOPBACK: Final = "127.0.0.1"
SHELL: Final = ("sleep", "infinity")
"""A person attaches to a shell. Until then nothing runs."""
JUPYTER_CONFIG: Final = "/tmp/cotenant-jupyter"
QUIET: Final = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False}}
"""Defaults of JupyterLab's settings, which a person may change.

Without them it asks at its start whether to fetch news from the internet, which most pods cannot reach.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """How an application is reached in its pod."""

    port: int
    path: str
    """Prefix of all its addresses. Begins and ends with `/`."""
    token: str
    """Empty for an application without a token of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    command: tuple[str, ...]
    env: Mapping[str, str]
    """Variables in addition to those of the pod."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Path → text, written before it starts."""


def application(
    kind: str, served: Served, command: Sequence[str], home: str, environ: Mapping[str, str]
) -> Application:
    """Raises ValueError for an unknown kind. `command` is that of a program of the tenant's own; `environ` is the pod's
    environment.
    """
    if kind == "JupyterLab":
        return jupyter_lab(served, home, environ)
    if kind == "CodeServer":
        address = f"{LOOPBACK}:{served.port}"
        options = ("--bind-addr", address, "--auth", "password", "--disable-telemetry", "--disable-update-check")
        return Application(command=("code-server", *options, home), env={"PASSWORD": served.token})
    if kind == "Shell":
        return Application(command=SHELL, env={})
    if kind == "Program":
        return Application(command=tuple(command), env={"COTENANT_SESSION_PORT": str(served.port)})
    raise ValueError(f"{kind} is no application of a session")


def jupyter_lab(served: Served, home: str, environ: Mapping[str, str]) -> Application:
    """The token is in the environment, because other users of a node may read command lines."""
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
        env={
            "JUPYTER_TOKEN": served.token,
            "JUPYTER_PLATFORM_DIRS": "1",
            "JUPYTER_CONFIG_PATH": ":".join(filter(None, (environ.get("JUPYTER_CONFIG_PATH"), JUPYTER_CONFIG))),
        },
        files={f"{JUPYTER_CONFIG}/labconfig/default_setting_overrides.json": json.dumps(QUIET)},
    )
