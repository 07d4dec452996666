"""A working folder as a ConfigMap: what a job runs, without an image built for it. Bounded in size, named by content.

Left out are hidden files, files that Python and editors leave, and files that `.cotenantignore` names with one shell
pattern per line. A ConfigMap has no folders: a tree is sent as one archive, which is unpacked in the pod.
"""

from __future__ import annotations

import base64
import fnmatch
import hashlib
import io
import json
import os
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cotenant import names

IGNORE: Final = ".cotenantignore"
LEFT_OUT: Final = ("__pycache__", "*.pyc", "*.egg-info", "node_modules", "venv", "*.swp", "*~")
BYTES_MAX: Final = 900_000
"""Size of all files together in the ConfigMap. An object of Kubernetes may have one MiB of data."""
FILES_MAX: Final = 500
ARCHIVE: Final = "_folder.zip"
COMMAND: Final = "--"
"""Prefix of a command that is no Python script."""
START: Final = "_start.py"
"""Unpacks the archive, in each rank, and runs its arguments there."""
_START: Final = f"""import os, runpy, sys, tempfile, zipfile
folder = tempfile.mkdtemp(prefix="folder-")
zipfile.ZipFile(os.path.join(os.path.dirname(os.path.abspath(__file__)), {ARCHIVE!r})).extractall(folder)
os.chdir(folder)
sys.path.insert(0, folder)
sys.argv = sys.argv[1:]
if sys.argv[0] == {COMMAND!r}:
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))
    os.execvp(sys.argv[1], sys.argv[1:])
runpy.run_path(sys.argv[0], run_name="__main__")
"""
_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")
"""A name that a ConfigMap accepts as a key."""


class FolderError(ValueError):
    """The folder cannot be sent. The message says what to do."""


@dataclass(frozen=True, slots=True)
class Folder:
    """Files by their path below the folder, sorted."""

    files: tuple[tuple[str, bytes], ...]

    @property
    def digest(self) -> str:
        whole = hashlib.sha256()
        for name, content in self.files:
            whole.update(f"{name}\0{len(content)}\0".encode() + content)
        return whole.hexdigest()[:10]

    @property
    def is_flat(self) -> bool:
        """True if the paths are valid keys of a ConfigMap."""
        return all(_KEY.fullmatch(name) for name, _ in self.files)

    def config_map(self, name: str, namespace: str) -> dict[str, Any]:
        """Raises FolderError if it is too large."""
        data, binary = {}, {}
        for key, content in self._entries():
            try:
                data[key] = content.decode()
            except UnicodeDecodeError:
                binary[key] = base64.b64encode(content).decode()
        document: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace},
            "immutable": True,
            "data": data,
        }
        if binary:
            document["binaryData"] = binary
        size = sum(len(json.dumps(one)) for one in (data, binary))
        if size > BYTES_MAX:
            raise FolderError(_too_large(self.files, size))
        return document

    def command(self, script: str, words: Sequence[str]) -> list[str]:
        """The command that runs the script (Python or, for `.sh`, a shell) in a pod with the ConfigMap as its code."""
        if script.endswith(".sh"):
            return self.begun(["bash", script, *words])
        return ["python", *([] if self.is_flat else [START]), script, *words]

    def begun(self, command: Sequence[str]) -> list[str]:
        """The command line, started in the folder, in a pod with the ConfigMap as its code."""
        return [*([] if self.is_flat else ["python", START, COMMAND]), *command]

    def _entries(self) -> Iterator[tuple[str, bytes]]:
        if self.is_flat:
            yield from self.files
            return
        yield START, _START.encode()
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in self.files:
                archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
        yield ARCHIVE, packed.getvalue()


def owned(code: Mapping[str, Any], name: str, uid: str, kind: str = "TrainingJob") -> dict[str, Any]:
    """The ConfigMap with this object as its owner, so that it is deleted with it."""
    owner = {"apiVersion": names.API_VERSION, "kind": kind, "name": name, "uid": uid}
    return {**code, "metadata": {**code["metadata"], "ownerReferences": [owner]}}


def read_folder(root: Path) -> Folder:
    """Raises FolderError if there is too much in it to send."""
    found: list[tuple[str, bytes]] = []
    size = 0
    for path in sorted(_files(root, _patterns(root))):
        if len(found) == FILES_MAX:
            raise FolderError(
                f"{root} has more than {FILES_MAX} files: name what is not needed in {IGNORE}, or send a smaller folder"
            )
        content = path.read_bytes()
        size += len(content)
        found.append((path.relative_to(root).as_posix(), content))
        if size > 16 * BYTES_MAX:
            raise FolderError(_too_large(found, size))
    return Folder(tuple(found))


def _patterns(root: Path) -> tuple[str, ...]:
    try:
        lines = (root / IGNORE).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        lines = []
    return (*LEFT_OUT, *(line.strip().rstrip("/") for line in lines if line.strip() and not line.startswith("#")))


def _files(root: Path, patterns: Sequence[str]) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        at = Path(folder)
        folders[:] = [one for one in folders if not _is_left_out(at / one, root, patterns)]
        yield from (at / one for one in files if not _is_left_out(at / one, root, patterns) and (at / one).is_file())


def _is_left_out(path: Path, root: Path, patterns: Sequence[str]) -> bool:
    below = path.relative_to(root).as_posix()
    return path.name.startswith(".") or any(
        fnmatch.fnmatch(path.name, one) or fnmatch.fnmatch(below, one) for one in patterns
    )


def _too_large(files: Sequence[tuple[str, bytes]], size: int) -> str:
    largest = sorted(files, key=lambda one: -len(one[1]))[:3]
    named = ", ".join(f"{name} ({len(content) // 1024} KiB)" for name, content in largest)
    return (
        f"the folder is {size // 1024} KiB as a ConfigMap, of at most {BYTES_MAX // 1024}; the largest: {named}. Name"
        f" what is not needed in {IGNORE}, or put it on a volume (runtime.code.persistentVolumeClaim)"
    )
