"""mount(2) for the nodes' inits: a node sees the machine's files, with places of its own where Kubernetes writes.

Runs inside a mount namespace of its own, so nothing of it is seen outside.
"""

import ctypes
import os
from pathlib import Path

MS_NOSUID, MS_NODEV, MS_BIND, MS_MOVE, MS_REC, MS_SHARED = 2, 4, 0x1000, 0x2000, 0x4000, 1 << 20

_libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: Path | str, kind: str | None, flags: int, options: str | None = None) -> None:
    def encoded(text: str | None) -> bytes | None:
        return text.encode() if text is not None else None

    if _libc.mount(source.encode(), os.fsencode(target), encoded(kind), flags, encoded(options)):
        number = ctypes.get_errno()
        raise OSError(number, f"mount of {source} on {target}: {os.strerror(number)}")


def bind(source: Path, target: Path) -> None:
    mount(str(source), target, None, MS_BIND | MS_REC)


def tmpfs(target: Path, options: str = "mode=0755") -> None:
    mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, options)


def share(target: Path) -> None:
    """Mounts made below are seen by the namespaces that are copied from this one, and the other way round."""
    mount("none", target, None, MS_SHARED | MS_REC)


def overlay_folder(target: Path, stage: Path) -> None:
    """Makes `target` writable for this namespace: what was there is still there, new entries go to memory.

    An ordinary user may not make /var/lib/kubelet; in here they may.
    """
    stage.mkdir(parents=True, exist_ok=True)
    tmpfs(stage)
    for entry in sorted(target.iterdir()):
        copy = stage / entry.name
        if entry.is_symlink():
            copy.symlink_to(entry.readlink())
        elif entry.is_dir():
            copy.mkdir()
            bind(entry, copy)
        elif entry.is_file():
            copy.touch()
            bind(entry, copy)
    mount(str(stage), target, None, MS_MOVE)
