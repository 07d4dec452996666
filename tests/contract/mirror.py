"""Finds the plain tests of a source file: those whose file has its name, in the folder that mirrors its own.

    python -m tests.contract.mirror operator/cotenant/core/actions/evict.py

`tests/core/actions/test_evict.py` mirrors that file, and so would a folder of that name. A test mirrors itself.
Prints the paths, one a line. Without any it says so, names the tests that import the file, and ends with 1.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {
    "operator/cotenant": "tests",
    "worker/cotenant_worker": "tests/worker",
    "worker/cotenant_agent": "tests/agent",
    "local/cotenant_local": "local/tests",
    "bench": "tests/bench",
}
"""Where sources are → the folder that mirrors them."""
BESIDE_THE_COMMAND = ("dashboard", "mcp", "sdk")
"""Packages of the operator whose tests are in `tests/cli`."""


def plain_tests(root: Path) -> list[Path]:
    live = root / "tests" / "live"
    found = [*(root / "tests").rglob("test_*.py"), *(root / "local" / "tests").rglob("test_*.py")]
    return [path for path in sorted(found) if live not in path.parents]


def mirror(source: Path, root: Path = ROOT) -> list[Path]:
    """Test files, and folders of tests, of `source`, a path below `root`."""
    if "tests" in source.parts[:2]:
        return [source] if source.name.startswith("test_") else []
    name, folder = source.stem, folder_of(source)
    if name == "__init__":
        return [folder] if (root / folder).is_dir() else []
    alone, inside = folder / f"test_{name}.py", folder / name
    found = [path for path in (alone, inside) if (root / path).exists()]
    if found:
        return found
    return [path.relative_to(root) for path in plain_tests(root) if path.name == alone.name]


def folder_of(source: Path) -> Path:
    """The folder of tests that mirrors the folder of a source file."""
    for start, room in ROOMS.items():
        if source.is_relative_to(start):
            below = source.relative_to(start).parent
            beside = bool(below.parts) and below.parts[0] in BESIDE_THE_COMMAND
            return Path("tests/cli" if beside else room) / below
    return Path("tests") / source.parent


def importers(source: Path, root: Path = ROOT) -> list[Path]:
    """Plain tests that import the module of `source`."""
    package, _, name = ".".join(source.with_suffix("").parts[1:]).rpartition(".")
    named = re.compile(rf"\b{re.escape(package)}\.{name}\b|from {re.escape(package)} import .*\b{name}\b")
    return [path.relative_to(root) for path in plain_tests(root) if named.search(path.read_text())]


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("Name one source file: make test-for F=operator/cotenant/core/actions/evict.py")
    source = Path(sys.argv[1])
    source = source.resolve().relative_to(ROOT) if source.is_absolute() else source
    if not (ROOT / source).is_file():
        sys.exit(f"There is no file {source}.")
    found = mirror(source)
    if not found:
        others = importers(source)
        hint = f" It is imported by {', '.join(map(str, others))}." if others else ""
        sys.exit(f"No plain test mirrors {source}: there is no {folder_of(source) / f'test_{source.stem}.py'}.{hint}")
    print(*found, sep="\n")


if __name__ == "__main__":
    main()
