"""`python -m cotenant_worker.sessions KIND --port P --path /… [-- COMMAND …]`: runs one application until it ends."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from cotenant import names
from cotenant_worker.sessions.application import Application, Served, application
from cotenant_worker.sessions.observer import listens, observe


def main(words: Sequence[str]) -> int:
    """Exit code of the application; 0 if it was asked to end."""
    parser = argparse.ArgumentParser(prog="cotenant_worker.sessions")
    parser.add_argument("kind")
    parser.add_argument("--port", type=int, default=names.SESSION_PORT)
    parser.add_argument("--path", default="/")
    parser.add_argument("--home", default=names.SESSION_HOME)
    end = words.index("--") if "--" in words else len(words)
    args, command = parser.parse_args(words[:end]), words[end + 1 :]
    served = Served(port=args.port, path=args.path, token=secrets.token_urlsafe(32))
    home = Path(args.home)
    home.mkdir(parents=True, exist_ok=True)
    return _run(args.kind, served, application(args.kind, served, command, str(home), os.environ), home)


def _run(kind: str, served: Served, program: Application, home: Path) -> int:
    for path, text in program.files.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)
    process = subprocess.Popen(program.command, cwd=home, env={**os.environ, "HOME": str(home), **program.env})
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: process.send_signal(number))
    ended = threading.Event()
    threading.Thread(target=_attend, args=(kind, served, ended), name="activity", daemon=True).start()
    code = process.wait()
    ended.set()
    return 128 - code if code < 0 else code


def _attend(kind: str, served: Served, ended: threading.Event) -> None:
    """Once the application listens, publish it to those who may execute commands here. Then report its activity."""
    if kind == "Shell" or listens(served, ended):
        document = {"port": served.port, "path": served.path, "token": served.token}
        _write_private(Path(names.SESSION_FILE), json.dumps(document))
        observe(kind, served, ended)


def _write_private(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
