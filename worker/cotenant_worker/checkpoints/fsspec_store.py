"""Checkpoints on any fsspec address (`s3://…`, `gs://…`, `file://…`). Imports fsspec; runs in a rank only.

Object stores are reached by obstore (`object_store`), one compiled package for all of them; other addresses by what
fsspec finds.
An object store has no rename, so the manifest is what makes a checkpoint: it is uploaded last, and a step without one
is not seen. Reading copies the step into a local directory and compares every sum.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import fsspec

from cotenant_worker.checkpoints import local_store
from cotenant_worker.checkpoints.local_store import MANIFEST, Checkpoint
from cotenant_worker.host import layout

OBJECT_STORES: Final = frozenset({"s3", "gs", "az"})
_SCRATCH: Final = "cotenant-resume-"


def file_system(url: str) -> tuple[Any, str]:
    """What holds an address, asked in fsspec's words, and the path in it."""
    if url.partition("://")[0] in OBJECT_STORES:
        from cotenant_worker.object_stores.object_store import ObjectStore  # an image may have fsspec alone

        return ObjectStore(url), ""
    files, root = fsspec.core.url_to_fs(url)
    return files, str(root).rstrip("/") + "/"


def save(url: str, step: int, write: Callable[[Path], None], *, meta: dict[str, Any], keep: int) -> None:
    """Write locally, upload, then upload the manifest, which makes it a checkpoint."""
    files, root = file_system(url)
    target = f"{root}{local_store.name_of(step)}"
    with tempfile.TemporaryDirectory(prefix="cotenant-checkpoint-") as scratch:
        local = local_store.save(Path(scratch), step, write, meta=meta, keep=1).path
        if files.exists(target):
            files.rm(target, recursive=True)
        files.makedirs(target, exist_ok=True)
        manifest = local / MANIFEST
        for path in sorted(local.rglob("*")):
            if path.is_file() and path != manifest:
                remote = f"{target}/{path.relative_to(local)}"
                files.makedirs(remote.rsplit("/", 1)[0], exist_ok=True)
                files.put_file(str(path), remote)
        files.put_file(str(manifest), f"{target}/{MANIFEST}")
    for old in _steps(files, root)[max(1, keep) :]:
        # The manifest goes first: what is left of an interrupted removal is not a checkpoint.
        if files.exists(f"{old}/{MANIFEST}"):
            files.rm(f"{old}/{MANIFEST}")
        files.rm(old, recursive=True)


def latest(url: str) -> Checkpoint | None:
    """The newest step whose files arrive whole, in a local directory that lives as long as this process."""
    files, root = file_system(url)
    files.invalidate_cache()  # another rank may have saved since this process last looked
    if not files.exists(root):
        return None
    for step in _steps(files, root):
        scratch = _scratch()
        found = _fetch(files, step, scratch / step.rsplit("/", 1)[-1])
        if found is not None:
            return found
        shutil.rmtree(scratch, ignore_errors=True)
    return None


def _scratch() -> Path:
    """A directory that goes with this process. A rank that is killed leaves its own, which the next one removes: a pod
    starts many, and a checkpoint may be large.
    """
    base = layout.state_dir() if layout.state_dir().is_dir() else Path(tempfile.gettempdir())
    for left in base.glob(f"{_SCRATCH}*-*"):
        owner = left.name.removeprefix(_SCRATCH).partition("-")[0]
        if owner.isdecimal() and not Path("/proc", owner).exists():
            shutil.rmtree(left, ignore_errors=True)
    mine = os.getpid()
    path = Path(tempfile.mkdtemp(prefix=f"{_SCRATCH}{mine}-", dir=base))

    def remove() -> None:
        if os.getpid() == mine:  # not in a child that was forked
            shutil.rmtree(path, ignore_errors=True)

    atexit.register(remove)
    return path


def _steps(files: Any, root: str) -> list[str]:
    """Newest first; names are padded, so their order is the steps' order."""
    names = [str(entry).rstrip("/") for entry in files.ls(root, detail=False)]
    return sorted((name for name in names if local_store.is_step(name.rsplit("/", 1)[-1])), reverse=True)


def _fetch(files: Any, remote: str, local: Path) -> Checkpoint | None:
    try:
        manifest = json.loads(files.cat_file(f"{remote}/{MANIFEST}"))
        for name in manifest["files"]:
            (local / name).parent.mkdir(parents=True, exist_ok=True)
            files.get_file(f"{remote}/{name}", str(local / name))
        (local / MANIFEST).write_text(json.dumps(manifest))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return local_store.load(local)
