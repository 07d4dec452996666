"""Checkpoints that are complete or absent: written aside, checksummed, renamed, pruned. Stdlib only.

A checkpoint is a directory `step-%012d` with the program's files and `manifest.json` (size and SHA-256 of each). It is
written as `….tmp-…` and renamed when everything is on the disk, so a reader never sees half of one. If the checksums of
a checkpoint do not match, the next older one is used. A step without a manifest, written by a program's own code under
such a name, counts as complete.

A bucket that is mounted as a folder (Mountpoint for S3, gcsfuse) cannot rename one. There a checkpoint is written under
its name with the manifest first, and removed with the manifest last: in between it lacks a file of its manifest.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotenant.contract import CheckpointSpec

MANIFEST = "manifest.json"
_NAME = re.compile(r"step-(\d{1,18})$")
_TEMPORARY = re.compile(r"step-\d{1,18}\.tmp-")
_CANNOT_RENAME = frozenset({errno.ENOSYS, errno.EPERM, errno.EOPNOTSUPP, errno.EXDEV, errno.EMFILE, errno.EINVAL})
"""How mounted buckets refuse to rename a folder. gcsfuse says that too many files are open."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    step: int
    path: Path
    meta: dict[str, Any]
    """Values that the program stores beside its files: world size, seed, epoch …"""


def name_of(step: int) -> str:
    return f"step-{step:012d}"


def is_step(name: str) -> bool:
    return _NAME.match(name) is not None


def save(
    root: Path, step: int, write: Callable[[Path], None], *, meta: dict[str, Any] | None = None, keep: int = 2
) -> Checkpoint:
    """Let `write` fill a directory, then make it the checkpoint of `step`. The newest `keep` checkpoints stay."""
    root.mkdir(parents=True, exist_ok=True)
    final = root / name_of(step)
    aside = root / f"{name_of(step)}.tmp-{uuid.uuid4().hex[:8]}"
    aside.mkdir()
    try:
        write(aside)
        manifest = {"step": step, "meta": meta or {}, "files": _sums(aside)}
        _write_synced(aside / MANIFEST, json.dumps(manifest, sort_keys=True).encode())
        _sync_tree(aside)
        _publish(aside, final)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    _sync_directory(root)
    prune(root, keep)
    return Checkpoint(step, final, meta or {})


def _publish(aside: Path, final: Path) -> None:
    """Give the whole checkpoint in `aside` its name, instead of another one that has it."""
    try:
        if final.exists():
            stale = final.with_name(f"{final.name}.tmp-{uuid.uuid4().hex[:8]}")
            final.rename(stale)
            shutil.rmtree(stale, ignore_errors=True)
        aside.rename(final)
    except OSError as error:
        if error.errno not in _CANNOT_RENAME:
            raise
        if load(final) is None:  # a whole one of the same step stays
            _copy(aside, final)
        shutil.rmtree(aside, ignore_errors=True)


def _copy(aside: Path, final: Path) -> None:
    final.mkdir(exist_ok=True)
    files = sorted(path for path in aside.rglob("*") if path.is_file())
    for file in sorted(files, key=lambda path: path != aside / MANIFEST):
        target = final / file.relative_to(aside)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


def _remove(path: Path) -> None:
    """Remove a checkpoint: first out of sight, because half a directory must never look like a checkpoint."""
    aside = path.with_name(f"{path.name}.tmp-{uuid.uuid4().hex[:8]}")
    try:
        path.rename(aside)
    except OSError as error:
        if error.errno not in _CANNOT_RENAME:
            raise
        for entry in path.iterdir() if path.is_dir() else ():
            if entry.name != MANIFEST:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        aside = path
    shutil.rmtree(aside, ignore_errors=True)


def whole_checkpoints(root: Path, *, verify: bool = True) -> Iterator[Checkpoint]:
    """Every complete checkpoint, newest first. With `verify` all bytes are read; otherwise only names and sizes are
    compared.
    """
    if not root.is_dir():
        return
    found = ((int(match[1]), path) for path in root.iterdir() if (match := _NAME.match(path.name)))
    for step, path in sorted(found, reverse=True):
        if checkpoint := _load(step, path, verify=verify):
            yield checkpoint


def latest(root: Path, *, verify: bool = True) -> Checkpoint | None:
    """The newest complete checkpoint. Damaged ones are skipped."""
    return next(whole_checkpoints(root, verify=verify), None)


def load(path: Path, *, verify: bool = True) -> Checkpoint | None:
    """This checkpoint, after its checksums were verified; None if it is incomplete."""
    match = _NAME.match(path.name)
    return _load(int(match[1]), path, verify=verify) if match else None


def newest(spec: CheckpointSpec | None) -> Checkpoint | None:
    """The newest checkpoint by sizes, for the launcher before a start. The rank that loads it compares checksums."""
    return latest(Path(spec.path), verify=False) if spec and not is_remote(spec.path) else None


def is_remote(path: str) -> bool:
    """True for an address of fsspec (`fsspec_store`). PID 1 does not import fsspec, so ranks look there."""
    return "://" in path


def prune(root: Path, keep: int) -> None:
    """Remove all but the newest `keep` checkpoints, and what interrupted writers left."""
    steps = sorted((path for path in root.iterdir() if _NAME.match(path.name)), key=lambda path: path.name)
    leftovers = [path for path in root.iterdir() if _TEMPORARY.match(path.name) and _abandoned(path)]
    for path in steps[: max(0, len(steps) - max(1, keep))]:
        _remove(path)
    for path in leftovers:
        shutil.rmtree(path, ignore_errors=True)


def _abandoned(path: Path) -> bool:
    """True if nothing was written to it for an hour."""
    try:
        newest_change = max(entry.stat().st_mtime for entry in (path, *path.rglob("*")))
        reference = os.stat(path.parent).st_mtime
    except OSError:
        return False
    return reference - newest_change > 3600


def _load(step: int, path: Path, *, verify: bool) -> Checkpoint | None:
    try:
        raw = json.loads((path / MANIFEST).read_text())
        for name, entry in raw["files"].items():
            file = path / name
            if file.stat().st_size != entry["bytes"] or (verify and _sum(file) != entry["sha256"]):
                return None
        return Checkpoint(step, path, raw["meta"])
    except FileNotFoundError:
        own_format = not (path / MANIFEST).exists()
        return Checkpoint(step, path, {}) if own_format and path.exists() else None
    except NotADirectoryError:
        return Checkpoint(step, path, {})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _sums(root: Path) -> dict[str, dict[str, Any]]:
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): {"bytes": path.stat().st_size, "sha256": _sum(path)} for path in files}


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_synced(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_tree(root: Path) -> None:
    for path in root.rglob("*"):
        if path.is_dir():
            _sync_directory(path)
            continue
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    _sync_directory(root)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_RENAME:  # mounted buckets have no folders to write back
            raise
    finally:
        os.close(descriptor)
