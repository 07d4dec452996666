"""Records that survive a restart: a folder per sandbox and per container, with the kubelet's message and a few facts.

`config.pb` is the kubelet's request, `meta.json` what the runtime decided; the shim adds `started.json` and
`exit.json`.
"""

import json
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


def new_id() -> str:
    """As long as containerd's: who attributes processes to containers knows an ID in a cgroup's path by its length."""
    return secrets.token_hex(32)


def create(folder: Path, config: Any, meta: dict[str, Any]) -> None:
    folder.mkdir(parents=True)
    (folder / "config.pb").write_bytes(config.SerializeToString())
    write(folder / "meta.json", meta)


def write(path: Path, document: dict[str, Any]) -> None:
    """Write the record whole or not at all."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(document))
    fresh.rename(path)


def read(path: Path) -> dict[str, Any] | None:
    try:
        document: dict[str, Any] = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return document


def each(folder: Path, message: Callable[[], Any]) -> Iterator[tuple[Path, Any, dict[str, Any]]]:
    """Every complete record below `folder`. Half-written records of a crash are removed."""
    folder.mkdir(parents=True, exist_ok=True)
    for entry in sorted(folder.iterdir()):
        meta = read(entry / "meta.json")
        if meta is None:
            remove(entry)
            continue
        config = message()
        config.ParseFromString((entry / "config.pb").read_bytes())
        yield entry, config, meta


def find(records: Mapping[str, T], name: str) -> T | None:
    """The record with this id, or with an unambiguous beginning of it."""
    if name in records:
        return records[name]
    found = [record for key, record in records.items() if name and key.startswith(name)]
    return found[0] if len(found) == 1 else None


def remove(folder: Path) -> None:
    def make_writable(function: Callable[..., Any], path: str, _: Any) -> None:
        if not os.path.lexists(path):
            return
        os.chmod(os.path.dirname(path), stat.S_IRWXU)
        function(path)

    shutil.rmtree(folder, onerror=make_writable)
