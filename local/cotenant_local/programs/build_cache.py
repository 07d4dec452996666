"""Builds that are kept, each under the hash of what it is built from: whole or not at all, by one builder at a time.

An atomic rename under a lock; an interrupted build leaves no folder that could pass for a finished one.
"""

import contextlib
import errno
import fcntl
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from cotenant_local.host import folders
from cotenant_local.host.errors import LocalError
from cotenant_local.host.progress import Progress

FULL = (errno.ENOSPC, errno.EDQUOT)
FULL_LINES: Final = 3
BUILD_MIB: Final = 3500
"""Of the first build: Go itself, the modules, what is compiled of them."""
KEEP_S = 30 * 24 * 3600
"""Builds that were not used for this long are removed by the next build."""


def once(kind: str, key: str, make: Callable[[Path, Progress], None]) -> Path:
    final = folders.cache() / f"{kind}-{key}"
    if _use(final):
        return final
    progress = Progress(sys.stderr)
    with _lock(kind, progress):
        if _use(final):  # another process built it while this one waited
            return final
        for leftover in final.parent.glob(f"{kind}.unfinished-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        try:
            _make_whole(final, kind, lambda unfinished: make(unfinished, progress))
        except (OSError, LocalError) as error:
            if not _is_full(error):
                raise
            raise LocalError(_disk_full_message(final.parent, error)) from error
        _remove_unused(kind, final)
    return final


def _is_full(error: OSError | LocalError) -> bool:
    """True for errno, and for programs whose error output names it."""
    return error.errno in FULL if isinstance(error, OSError) else bool(_disk_full_lines(error))


def _disk_full_lines(error: Exception) -> list[str]:
    words = [os.strerror(number).lower() for number in FULL]
    return [line.strip() for line in str(error).splitlines() if any(word in line.lower() for word in words)]


def _disk_full_message(cache: Path, error: Exception) -> str:
    """Names both disks: Go writes to the cache, and its scratch files to the folder for temporary ones."""
    scratch = Path(tempfile.gettempdir())
    free = ", ".join(f"{folder} has {shutil.disk_usage(folder).free >> 20} MiB left" for folder in (cache, scratch))
    return (
        f"a disk is full ({free}); nothing half-made stays. A first build needs some {BUILD_MIB} MiB. Make room, or "
        "set XDG_CACHE_HOME (and TMPDIR) to folders on another disk. What was said:\n"
        + "\n".join(_disk_full_lines(error)[:FULL_LINES])
    )


def _make_whole(final: Path, kind: str, make: Callable[[Path], None]) -> None:
    unfinished = Path(tempfile.mkdtemp(prefix=f"{kind}.unfinished-", dir=final.parent))
    try:
        make(unfinished)
        unfinished.chmod(0o755)
        unfinished.rename(final)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _use(final: Path) -> bool:
    with contextlib.suppress(PermissionError):  # a cache of another user is used as it is
        try:
            os.utime(final)
        except (FileNotFoundError, NotADirectoryError):
            return False
    return final.is_dir()


def _remove_unused(kind: str, final: Path) -> None:
    for other in final.parent.glob(f"{kind}-*"):
        if other != final and time.time() - other.stat().st_mtime > KEEP_S:
            shutil.rmtree(other, ignore_errors=True)


@contextlib.contextmanager
def _lock(kind: str, progress: Progress) -> Iterator[None]:
    cache = folders.cache()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        file = (cache / f"{kind}.lock").open("w")
    except OSError as error:
        raise LocalError(f"{cache} cannot be written ({error.strerror}); set XDG_CACHE_HOME.") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.log(f"another process is building in {cache}; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
