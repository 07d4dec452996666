"""The working directory of a program: beside its code, and writable.

Code from a ConfigMap is mounted read-only, and many programs write where they start: `torch.save(…, "snapshot.pt")`,
`runs/`, Hydra's `outputs/`. So such a program starts in a directory of the pod's scratch space that holds a link to
every entry of its code. Ranks of one pod share it, as they share a directory under torchrun; it lives as long as the
pod, so a rank that is started again in place finds what it wrote.
"""

from __future__ import annotations

import os
from pathlib import Path


def working_directory(code: Path, scratch: Path) -> Path:
    """The code's directory where it is writable (`/` where there is none), else `scratch` with links to it."""
    if not code.is_dir():
        return Path("/")
    return code if os.access(code, os.W_OK) else link_entries(code, scratch)


def link_entries(code: Path, scratch: Path) -> Path:
    """Make `scratch` or complete it. What a program wrote there under its own names stays."""
    scratch.mkdir(parents=True, exist_ok=True)
    for entry in sorted(code.iterdir()):
        link = scratch / entry.name
        if not entry.name.startswith("..") and not link.is_symlink() and not link.exists():  # `..data` is the kubelet's
            link.symlink_to(entry)
    return scratch
