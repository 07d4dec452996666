"""One container as the runtime knows it: its record on disk, and the reports of its shim."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotenant_local.runtime.interface import proto
from cotenant_local.runtime.isolation.container_cgroups import ContainerCgroup


class StateError(Exception):
    """The container is not in a state in which this can be done."""


@dataclass
class Container:
    """One container. `started` and `exit` are the shim's records."""

    id: str
    folder: Path
    config: Any
    sandbox_id: str
    image_id: str
    created_at: int
    uid: int
    gid: int
    groups: list[int]
    log_path: str
    notes: list[str]
    cgroup: ContainerCgroup | None = None
    started: dict[str, Any] | None = None
    exit: dict[str, Any] | None = None
    watcher: "asyncio.Task[None] | None" = None

    @property
    def state(self) -> int:
        if self.exit:
            return int(proto.pb.CONTAINER_EXITED)
        return int(proto.pb.CONTAINER_RUNNING if self.started else proto.pb.CONTAINER_CREATED)

    @property
    def running(self) -> bool:
        return self.started is not None and self.exit is None

    @property
    def pid(self) -> int:
        if not self.running:
            raise StateError(f"container {self.config.metadata.name} ({self.id}) is not running")
        assert self.started is not None
        return int(self.started["pid"])


RECORDED = ("sandbox_id", "image_id", "created_at", "uid", "gid", "groups", "log_path", "notes")
"""Fields that `meta.json` keeps over a restart of the runtime."""
