"""Files that only their owner may read, written whole or not at all."""

import os
from pathlib import Path


def write_secret(path: Path, content: bytes) -> None:
    """Whole or not at all: an interrupted start must not leave half a key for the next one."""
    unfinished = path.with_name(path.name + ".unfinished")
    unfinished.unlink(missing_ok=True)
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    unfinished.rename(path)
