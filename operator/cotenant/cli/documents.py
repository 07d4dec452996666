"""Manifests from a file, from stdin or from a folder, as kubectl reads them. Used by every verb that reads
documents.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cotenant.cli.errors import UserError

SUFFIXES = {".yaml", ".yml", ".json"}


def texts(names: Sequence[str], *, recursive: bool) -> Iterator[tuple[str, str]]:
    """(where, text) of every named file. `-` is stdin. A folder stands for its files."""
    for name in names:
        path = Path(name)
        if name == "-":
            yield "stdin", sys.stdin.read()
        elif path.is_dir():
            found = sorted(path.rglob("*") if recursive else path.glob("*"))
            yield from ((str(file), _read(file)) for file in found if file.suffix in SUFFIXES and file.is_file())
        else:
            yield name, _read(path)


def documents_of(names: Sequence[str], *, recursive: bool) -> Iterator[Mapping[str, Any]]:
    """Every document in them. Raises UserError if a text is not YAML, or a document is not an object."""
    from cotenant.api.conversion.yaml_text import read_documents
    from cotenant.api.validation.problems import DocumentError

    try:
        for where, text in texts(names, recursive=recursive):
            for document in read_documents(text, where):
                if not isinstance(document.body, Mapping):
                    raise UserError(f"{where}:{document.line}: the document must be an object with fields")
                yield document.body
    except DocumentError as error:
        raise UserError(str(error)) from error


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
