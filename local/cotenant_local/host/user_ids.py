"""User ids of a sandbox: all of the machine's (root), a range of subordinate ones, or one.

An ordinary user has a range if the administrator has given one (/etc/subuid, /etc/subgid; `useradd` does) and the
programs newuidmap and newgidmap are there. Then containers run as different users, as they do anywhere. With one id
they all are the same user, whatever they see.
"""

import functools
import os
import pwd
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ONE = ("--user", "--map-root-user")
RANGE = (*ONE, "--map-auto")
HELPERS = ("newuidmap", "newgidmap")
RANGES = (Path("/etc/subuid"), Path("/etc/subgid"))


def flags() -> tuple[str, ...]:
    """Flags of `unshare` for this user."""
    if os.geteuid() == 0:
        return ()
    return ONE if why_one() else RANGE


@functools.cache
def why_one() -> str:
    """The reason why an ordinary user has one id only, and what would change it; empty if there is a range."""
    if missing := [program for program in HELPERS if not shutil.which(program, path=_path())]:
        return f"{' and '.join(missing)} are not installed (on Debian and Ubuntu: sudo apt-get install uidmap)"
    me = pwd.getpwuid(os.geteuid()).pw_name
    if missing := [str(file) for file in RANGES if not _has_range(file, me)]:
        return (
            f"{me} has no range in {' and '.join(missing)} "
            f"(sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {me})"
        )
    if closed := closed_to_others(_shown_in_containers()):
        return f"other users cannot read {closed}, which containers run from (chmod -R o+rX {closed})"
    probe = subprocess.run(
        ["unshare", *RANGE, "true"],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env={**os.environ, "PATH": _path()},
    )
    return f"unshare {' '.join(RANGE)} said: {probe.stderr.strip()}" if probe.returncode else ""


def closed_to_others(paths: Iterable[Path]) -> Path | None:
    """The first that only its owner can read. Folders above do not matter: a container sees the path alone."""
    wanted = stat.S_IROTH | stat.S_IXOTH
    return next((path for path in paths if path.is_dir() and path.stat().st_mode & wanted != wanted), None)


def remove(path: Path) -> None:
    """Removes a folder, including files of subordinate ids. Runs inside the range, because only that is allowed.

    Raises OSError.
    """
    done = subprocess.run(
        ["unshare", *RANGE, "rm", "-rf", "--", str(path)], capture_output=True, text=True, check=False, cwd="/"
    )
    if path.exists():
        raise PermissionError(f"{path} cannot be removed: {done.stderr.strip()}")


def _shown_in_containers() -> list[Path]:
    from cotenant_local.host import folders

    environment = Path(sys.prefix)
    checkout = folders.checkout()
    interpreter = (environment / "bin" / "python").resolve().parent.parent
    return [
        environment,
        environment / "bin",
        interpreter,
        *(checkout / room for room in ("operator", "worker", "local")),
    ]


def _has_range(file: Path, user: str) -> bool:
    try:
        owners = {line.split(":")[0] for line in file.read_text().splitlines()}
    except OSError:
        return False
    return bool({user, str(os.geteuid())} & owners)


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/bin:/bin"
