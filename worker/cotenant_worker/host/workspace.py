"""The working directory of a program: contains its code, and is writable.

Code is mounted read-only, but many programs write where they start: `torch.save(…, "snapshot.pt")`, `runs/`, Hydra's
`outputs/`. Such a program starts in a directory of the scratch space that has copies of the code's folders, scripts and
small files, and a link to every other file. So it may also write into folders of its code, compile extensions beside
its modules, and change small files: `dvc.lock`, `mlflow.db`, its own notebook. Ranks of one pod share the directory, as
under torchrun. It lives as long as the pod, so a rank that is restarted in place finds its files.

Locks of killed ranks stay there too. Most end with their holder, but the lock of torch's compiled extensions is a file,
for which the next rank would wait without end.

A program may ask git for the commit that it is. Git refuses a repository that belongs to another user, as code on a
volume does.

A program may install what it imports next. Python looks into the user's own folder of packages only if that is there
when it starts, so it is made before.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

_MOST_LINKS: Final = 4_000
_MOST_S: Final = 2.0
"""What lies deeper when so many entries are linked, or so much time has passed, is reached by a link to its folder."""
_SCRIPTS: Final = (".py", ".sh", ".ipynb")
_SMALL_BYTES: Final = 4 << 20
_MOST_BYTES: Final = 64 << 20
"""Files up to the first size are copied, up to the second in all."""
_REPOSITORIES: Final = frozenset({".git", ".hg", ".svn"})
_OF_ENVIRONMENTS: Final = frozenset({"pyvenv.cfg", "conda-meta"})
"""Marks of an environment of Python. Like a repository it has many files, of which a program changes none."""


def working_directory(code: Path, scratch: Path) -> Path:
    """The code's directory if it is writable (`/` without code), otherwise `scratch` with links to it."""
    if not code.is_dir():
        return Path("/")
    return code if os.access(code, os.W_OK) else link_entries(code, scratch)


def named_there(command: Sequence[str], code: Path, scratch: Path) -> tuple[str, ...]:
    """The command, with scripts that it names by their path in the code (`bash /workspace/run.sh`) replaced by their
    copies in the working directory.

    The program may write there, and many go into the folder of their script first: `cd "$(dirname "$0")"`.
    """
    scripts = {part for part in command if part.endswith(_SCRIPTS) and Path(part).is_relative_to(code)}
    start = working_directory(code, scratch) if scripts else code
    places = {part: start / Path(part).relative_to(code) for part in scripts}
    return tuple(str(places[part]) if part in places and places[part].is_file() else part for part in command)


def link_entries(code: Path, scratch: Path) -> Path:
    """Make or complete `scratch`. Files that a program wrote there under other names stay."""
    scratch.mkdir(parents=True, exist_ok=True)
    left, room, end = _MOST_LINKS, _MOST_BYTES, time.monotonic() + _MOST_S
    folders = deque([""])
    while folders:
        inside = folders.popleft()
        enough = inside and (left <= 0 or time.monotonic() > end)
        entries = None if enough else _entries(code / inside, left if inside else None)
        if inside and (entries is None or _OF_ENVIRONMENTS.intersection(entry.name for entry in entries)):
            _link(scratch / inside, code / inside)
            continue
        (scratch / inside).mkdir(exist_ok=True)
        for entry in entries or ():
            left -= 1
            at = os.path.join(inside, entry.name)
            link = scratch / at
            if entry.name.startswith("..") or link.is_symlink() or link.exists():  # `..data` is the kubelet's
                continue
            if entry.is_dir(follow_symlinks=False) and not _stays_a_link(entry.name):
                folders.append(at)
            elif time.monotonic() > end or not (size := _copied(entry, link, room)):
                _link(link, code / at)
            else:
                room -= size
    return scratch


def _stays_a_link(folder: str) -> bool:
    return folder in _REPOSITORIES or folder.startswith("__")


def _link(at: Path, target: Path) -> None:
    """Make the link, unless a running rank of the pod has made something of that name meanwhile."""
    with contextlib.suppress(FileExistsError):
        at.symlink_to(target)


def _copied(entry: os.DirEntry[str], target: Path, room: int) -> int:
    """Copy a script or a small file, and return its size; 0 for other files. `room`: bytes that small ones may take.

    Scripts are not linked, because Python takes the folder of the link's target for the program's: modules would be
    imported from there, and could not write beside themselves.
    """
    if not entry.is_file(follow_symlinks=False):
        return 0
    with contextlib.suppress(OSError):
        size = entry.stat().st_size
        if entry.name.endswith(_SCRIPTS) or size <= min(_SMALL_BYTES, room):
            shutil.copy2(entry.path, target)
            target.chmod(target.stat().st_mode | stat.S_IWUSR)
            return max(1, size)
        return 0
    target.unlink(missing_ok=True)
    return 0


def _entries(folder: Path, most: int | None) -> list[os.DirEntry[str]] | None:
    """The entries of a folder; None if there are more than `most`, or if it may not be read."""
    with contextlib.suppress(PermissionError), os.scandir(folder) as there:
        found = list(there if most is None else islice(there, most + 1))
        return found if most is None or len(found) <= most else None
    return None


def trust_repositories(env: Mapping[str, str], scratch: Path = Path("/tmp")) -> None:
    """Let git read repositories of other users, unless the user has settings of git. Before its release 2.38 it takes
    this from a file only.
    """
    settings = Path(env.get("HOME", "/"), ".gitconfig")
    if settings.is_relative_to(scratch) and not settings.exists():
        with contextlib.suppress(OSError):
            settings.write_text("[safe]\n\tdirectory = *\n")


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
