"""Folders: built programs under the XDG cache, each cluster's state under the XDG state folder. None is made here."""

import os
import re
from pathlib import Path

from cotenant_local.host.errors import LocalError

NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


def _home() -> Path:
    home = os.environ.get("HOME")
    if not home:
        raise LocalError("HOME is not set; set it, or set XDG_CACHE_HOME and XDG_STATE_HOME.")
    return Path(home)


def cache() -> Path:
    """Built programs, safe to remove when nothing runs."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else _home() / ".cache") / "cotenant"


def clusters() -> Path:
    """One folder per cluster, named after it."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else _home() / ".local" / "state") / "cotenant" / "local"


def cluster(name: str) -> Path:
    if not NAME.fullmatch(name):
        raise LocalError(
            f"cluster name {name!r}: use 1 to 40 lower-case letters, digits and dashes, starting and ending "
            "with a letter or digit."
        )
    return clusters() / name


def checkout() -> Path:
    """The folder that has the source roots, in a checkout; site-packages in an installed wheel."""
    return Path(__file__).resolve().parents[3]


def oldest_source() -> Path:
    """The Go module of the oldest Kubernetes: for tests, so in a checkout only."""
    folder = checkout() / "local" / "oldest"
    if not (folder / "go.mod").is_file():
        raise LocalError(f"{folder} is not there: only a checkout of cotenant has it.")
    return folder


def controlplane_source() -> Path:
    """The Go module: beside this package in a checkout, inside it in an installed wheel."""
    package = Path(__file__).resolve().parents[1]
    for candidate in (package.parent / "controlplane", package / "programs" / "source"):
        if (candidate / "go.mod").is_file():
            return candidate
    raise LocalError(f"the Go module `controlplane` is neither beside nor inside {package}; reinstall cotenant.")
