"""Folders of the user's cache with packages for an image of a test: made on first use, keyed by what is in them."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "cotenant" / "packages"


def package_folder(name: str, packages: Sequence[str]) -> Path:
    """The folder, installed where it is not there yet; another Python or another list is another folder."""
    key = hashlib.sha256("\n".join([sys.version, *packages]).encode()).hexdigest()[:16]
    target = CACHE / f"{name}-{key}"
    if not target.is_dir():
        aside = target.with_suffix(f".{os.getpid()}")
        install = [sys.executable, "-m", "uv", "pip", "install", "-q", "--target", str(aside)]
        subprocess.run([*install, *packages], check=True)
        aside.rename(target)
    return target
