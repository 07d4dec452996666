"""The packages that the programs of this folder import, installed once into a folder of the user's cache."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

LOCKED = Path(__file__).parent / "packages.txt"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "cotenant" / "programs-of-tenants"


@pytest.fixture(scope="session")
def packages() -> Path:
    """A folder for PYTHONPATH, on top of the worker's own environment; made anew when the list changes.

    Each checkout has its own: the scripts in its `bin/` name the interpreter that has installed them.
    """
    key = LOCKED.read_bytes() + f"{sys.version} {sys.executable}".encode()
    target = CACHE / hashlib.sha256(key).hexdigest()[:16]
    if not target.is_dir():
        aside = target.with_suffix(f".{os.getpid()}")
        command = [sys.executable, "-m", "uv", "pip", "install", "-q", "--no-deps", "--compile-bytecode"]
        subprocess.run([*command, "--target", str(aside), "-r", str(LOCKED)], check=True)
        aside.rename(target)
    return target
