"""Finds the cgroup of a container on the host, by the container's ID: the leaf on which a limit is set.

A limit of the parent is no proof, because a new leaf may come without it. Paths are those of a cgroup v2 tree, mounted
read-only.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

DEPTH_MAX: Final = 8
"""Kubelets, nested ones included, put containers at most this many levels below the root."""


ID_MIN: Final = 24
"""Hex digits of a container's ID. containerd and CRI-O have 64; no part of a pod's own name has as many as this."""


NAME_BEFORE: Final = re.compile(r".*[-:]")
"""What stands before the ID in a name: `cri-containerd-`, or `kubepods-pod….slice:cri-containerd:`."""


class ContainerCgroups:
    """`root` is the host's `/sys/fs/cgroup`. A found path is remembered while it exists."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[str, Path] = {}

    def leaf(self, container: str) -> Path | None:
        """The directory of this container; None if it does not exist."""
        known = self._known.get(container)
        if known is None or not known.is_dir():
            self._known = self._scan()
            known = self._known.get(container)
        return known

    def _scan(self) -> dict[str, Path]:
        """Container ID → directory, of all containers of pods."""
        found: dict[str, Path] = {}
        for at, folders, _ in os.walk(self._root):
            path = Path(at)
            if len(path.relative_to(self._root).parts) >= DEPTH_MAX:
                folders.clear()
            for name in folders:
                container = NAME_BEFORE.sub("", name.removesuffix(".scope"))
                if len(container) >= ID_MIN and set(container) <= set("0123456789abcdef"):
                    found.setdefault(container, path / name)
        return found
