"""Runs live tests, and those that failed once more, one by one, when the machine is quiet again.

    python -m tests.live.twice [arguments of pytest]

A test that fails twice is red: the exit code is 1. A test that fails once is listed as FLAKY in the closing lines, and
what both runs printed is in `build/live-first.txt` and `build/live-again.txt`: a fault to be found.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FAILED = ROOT / ".pytest_cache" / "v" / "cache" / "lastfailed"
PYTEST = (sys.executable, "-m", "pytest")
SOME_FAILED = 1
"""Exit code of pytest: tests ran, and some failed."""


def run(command: list[str], log: Path) -> int:
    """The exit code; what is printed goes to the terminal and to a file."""
    log.parent.mkdir(exist_ok=True)
    with log.open("w") as file:
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            file.write(line)
        return process.wait()


def failed() -> set[str]:
    """Node ids that pytest remembers as failed."""
    return set(json.loads(FAILED.read_text())) if FAILED.exists() else set()


def main() -> int:
    first, again = ROOT / "build" / "live-first.txt", ROOT / "build" / "live-again.txt"
    code = run([*PYTEST, "--cache-clear", *sys.argv[1:]], first)
    once = failed()
    if code != SOME_FAILED or not once:
        return code
    code = run([*PYTEST, "--last-failed", "--numprocesses", "0", "tests/live"], again)
    flaky = once - failed()
    for name in sorted(flaky):
        print(f"FLAKY {name}")
    if flaky:
        print(f"{len(flaky)} of {len(once)} failed once and not again: {first} and {again} say how")
    return code


if __name__ == "__main__":
    sys.exit(main())
