"""The working directory of a program: contains its code, and is writable.

Code from a ConfigMap is mounted read-only, but many programs write where they start: `torch.save(…, "snapshot.pt")`,
`runs/`, Hydra's `outputs/`. Such a program starts in a directory of the pod's scratch space with a link to every entry
of its code. Ranks of one pod share it, as they share a directory under torchrun. It lives as long as the pod, so a rank
that is restarted in place finds its files.

It finds locks of killed ranks too. Most are gone with their holder; that of torch's compiled extensions is a file that
the next rank would wait for without end.

A program may install what it imports next. Python looks into the user's own folder of packages only if that is there
when it starts, so it is made before.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path


def working_directory(code: Path, scratch: Path) -> Path:
    """The code's directory if it is writable (`/` without code), otherwise `scratch` with links to it."""
    if not code.is_dir():
        return Path("/")
    return code if os.access(code, os.W_OK) else link_entries(code, scratch)


def link_entries(code: Path, scratch: Path) -> Path:
    """Make or complete `scratch`. Files that a program wrote there under other names stay."""
    scratch.mkdir(parents=True, exist_ok=True)
    for entry in sorted(code.iterdir()):
        link = scratch / entry.name
        if not entry.name.startswith("..") and not link.is_symlink() and not link.exists():  # `..data` is the kubelet's
            link.symlink_to(entry)
    return scratch


def remove_stale_locks(env: Mapping[str, str], scratch: Path = Path("/tmp")) -> None:
    """Remove the locks that killed ranks of this pod have left in the cache of torch's extensions. Call it while none
    runs. Outside the pod's scratch space another pod may hold such a lock.
    """
    cache = Path(env.get("TORCH_EXTENSIONS_DIR") or Path(env.get("HOME", "/"), ".cache", "torch_extensions"))
    if cache.is_relative_to(scratch):
        for lock in (*cache.glob("*/lock"), *cache.glob("*/*/lock")):
            lock.unlink(missing_ok=True)


def make_user_packages(env: Mapping[str, str], scratch: Path = Path("/tmp")) -> None:
    """Make the folder into which `pip install` puts packages where the environment cannot be written."""
    base = Path(env.get("PYTHONUSERBASE") or Path(env.get("HOME", "/"), ".local"))
    if base.is_relative_to(scratch):
        with contextlib.suppress(OSError):
            version = f"python{sys.version_info.major}.{sys.version_info.minor}"
            (base / "lib" / version / "site-packages").mkdir(parents=True, exist_ok=True)
