"""The working directory of a program: contains its code, and is writable.

Code from a ConfigMap is mounted read-only, but many programs write where they start: `torch.save(…, "snapshot.pt")`,
`runs/`, Hydra's `outputs/`. Such a program starts in a directory of the pod's scratch space with a link to every entry
of its code. Ranks of one pod share it, as they share a directory under torchrun. It lives as long as the pod, so a rank
that is restarted in place finds its files.
"""

from __future__ import annotations

import os
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
