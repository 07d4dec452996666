# mypy: ignore-errors
"""Prints what a program sees of its interpreter, as JSON: what differs from plain Python is our doing."""

import json
import os
import signal
import sys
import threading
from dataclasses import dataclass, fields
from pathlib import Path


@dataclass
class Config:
    rate: float = 0.1


def of_code():
    pass


def listing(folder):
    """The open descriptors, without the one that lists them."""
    return sorted(os.path.realpath(f"{folder}/{name}").split(":")[0] for name in os.listdir(folder) if int(name) > 2)


main = sys.modules["__main__"]
where = os.path.dirname(os.path.abspath(__file__))
facts = {
    "annotations are types": [field.type.__name__ for field in fields(Config)],
    "flags of the code": of_code.__code__.co_flags,
    "file of the code": of_code.__code__.co_filename,
    "__file__": __file__,
    "__name__, __package__, __spec__": [__name__, __package__, __spec__ and __spec__.name],
    "__loader__": [type(__loader__).__name__, getattr(__loader__, "path", ""), getattr(__loader__, "name", "")],
    "__builtins__": type(__builtins__).__name__,
    "names of the module": sorted(name for name in vars(main) if name.startswith("__")),
    "sys.argv": sys.argv,
    "sys.orig_argv": sys.orig_argv[1:],
    "sys.flags": str(sys.flags),
    "sys.executable, sys.prefix": [sys.executable, sys.prefix],
    "first of sys.path": sys.path[0],
    "places of sys.path": sorted(set(sys.path)),
    "own first": sys.path.index(where) < min(at for at, part in enumerate(sys.path) if "/lib/python" in part),
    "working directory": os.getcwd(),
    "handlers": {
        name.name: str(signal.getsignal(name)).split(" at ")[0]
        for name in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE)
    },
    "threads": [thread.name for thread in threading.enumerate()],
    "descriptors": [part for part in listing("/proc/self/fd") if "/fd" not in part],
    "umask": os.umask(0o022),
    "stdout": [sys.stdout.line_buffering, sys.stdout.write_through, sys.stdout.encoding],
    "stdin": sys.stdin.read(),
    "session": os.getsid(0) == os.getpid(),
    "nice": os.nice(0),
    "environment": dict(os.environ),
}
Path(os.environ["HOME"], "facts.json").write_text(json.dumps(facts))
