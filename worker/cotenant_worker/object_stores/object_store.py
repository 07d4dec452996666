"""An object store (S3, GCS, Azure, or a web server), through obstore's blocking calls under fsspec's method names.

obstore's own fsspec file system uses its asynchronous calls. Their results arrive on Rust threads that take the
interpreter's lock. A process that ends soon after its last call, such as a rank after its last checkpoint, was aborted
in every third run (PyO3/pyo3-async-runtimes issue 40). Blocking calls use no such threads.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import obstore
from obstore.store import HTTPStore, from_url

_TIMEOUTS: Final = {"connect_timeout": "20s", "read_timeout": "60s", "timeout": "24h"}
"""obstore's own `timeout` limits a whole answer to 30 s, which no large object meets. Here a read that waits is ended.
"""


@dataclass(frozen=True, slots=True)
class StoredObject:
    path: str
    """Relative to the store's address."""
    size: int
    """Bytes."""
    etag: str
    """Changes with the content; empty if the store has none."""


class ObjectStore:
    """The objects below one address. Paths are relative to it. There are no folders, and nothing is cached."""

    def __init__(self, url: str, *, retry_s: float = 180.0) -> None:
        """`retry_s` is how long one request is retried if the store does not answer, in seconds."""
        plain = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://") or url.startswith("http://")
        options: Any = {"allow_http": plain, **_TIMEOUTS}
        retry: Any = {"retry_timeout": timedelta(seconds=retry_s)}
        open_store: Any = HTTPStore.from_url if url.startswith(("http://", "https://")) else from_url
        self._store: Any = open_store(url, client_options=options, retry_config=retry)

    def objects(self) -> Iterator[StoredObject]:
        """All objects, at any depth."""
        for chunk in obstore.list(self._store):
            for item in chunk:
                yield _stored(item)

    def head(self, path: str) -> StoredObject:
        """Raises FileNotFoundError."""
        return _stored(obstore.head(self._store, path))

    def read(self, path: str, etag: str) -> Iterator[Any]:
        """Chunks of bytes. With an `etag`, only of that content: obstore's PreconditionError if it has changed."""
        strong = etag and not etag.startswith("W/")  # a weak one never matches
        options: Any = {"if_match": etag} if strong else None
        yield from obstore.get(self._store, path, options=options).stream(min_chunk_size=1 << 20)

    def exists(self, path: str) -> bool:
        """True if it is an object, or objects lie below it."""
        listed = obstore.list(self._store, path or None, chunk_size=1)
        if any(len(chunk) for chunk in listed):
            return True
        if not path:  # the address itself is no object: of a bucket there would be nothing to ask for
            return False
        try:
            obstore.head(self._store, path)
        except FileNotFoundError:
            return False
        return True

    def ls(self, path: str, *, detail: bool = False) -> list[str]:
        """Paths directly below it, of objects and of what fsspec calls folders. `detail` is fsspec's and must
        be false.
        """
        assert not detail
        found = obstore.list_with_delimiter(self._store, path or None)
        return [*found["common_prefixes"], *(str(item["path"]) for item in found["objects"])]

    def makedirs(self, path: str, **_: Any) -> None:
        """Does nothing: an object store has no folders."""

    def invalidate_cache(self) -> None:
        """Does nothing: nothing is cached."""

    def put_file(self, local: str, path: str) -> None:
        obstore.put(self._store, path, Path(local))

    def get_file(self, path: str, local: str) -> None:
        with open(local, "wb") as file:
            for chunk in obstore.get(self._store, path):
                file.write(chunk)

    def cat_file(self, path: str) -> bytes:
        return bytes(obstore.get(self._store, path).bytes())

    def rm(self, path: str, *, recursive: bool = False) -> None:
        obstore.delete(self._store, self._all(path) if recursive else path)

    def _all(self, path: str) -> list[str]:
        return [str(item["path"]) for chunk in obstore.list(self._store, path or None) for item in chunk]


def _stored(item: Any) -> StoredObject:
    return StoredObject(str(item["path"]), int(item["size"]), str(item["e_tag"] or ""))
