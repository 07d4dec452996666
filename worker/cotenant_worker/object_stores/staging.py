"""Fetches the data of a job into its folders before the ranks start: `python -m cotenant_worker.object_stores.staging`.

A process of its own in every pod, once: process 1 reads its reports and ends it with SIGKILL when the pod has to leave.
All sources are listed before the first byte is fetched, so that what cannot fit is refused at once.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from obstore.exceptions import BaseError

from cotenant.contract import Contract, DataSource
from cotenant_worker.object_stores import staging_errors
from cotenant_worker.object_stores.object_store import ObjectStore, StoredObject
from cotenant_worker.object_stores.staged_folder import StagedFolder, checked_name
from cotenant_worker.object_stores.staging_errors import StagingError
from cotenant_worker.object_stores.staging_reports import (
    STAGING_REPORTS,
    StagingProgress,
    StagingRefused,
    StagingReport,
)

AT_ONCE: Final = 8
"""Objects."""
TRIES: Final = 4
"""Of one object whose store stops answering or that changes meanwhile; obstore itself tries every request again."""
PAUSE_S: Final = 2.0
_REPORT_EVERY_S: Final = 0.5
OBJECTS_MAX: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class Listing:
    """Objects of one source by the names of their files, and the store to read them from."""

    source: DataSource
    store: ObjectStore
    objects: dict[str, StoredObject]

    @property
    def size(self) -> int:
        return sum(item.size for item in self.objects.values())


@dataclass(slots=True)
class Tally:
    """Bytes that all threads have fetched, reported at an interval."""

    report: Callable[[StagingReport], None]
    of_bytes: int = 0
    fetched_bytes: int = 0
    note: str = ""
    _reported_at: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, count: int) -> None:
        with self._lock:
            self.fetched_bytes += count
            now = time.monotonic()
            if now - self._reported_at >= _REPORT_EVERY_S:
                self._reported_at = now
                self._send()

    def say(self, note: str) -> None:
        with self._lock:
            self.note = note
            self._send()

    def _send(self) -> None:
        self.report(StagingProgress(max(0, self.fetched_bytes), self.of_bytes, self.note))


def stage(
    sources: tuple[DataSource, ...],
    report: Callable[[StagingReport], None],
    *,
    retry_s: float = 180.0,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Fetch everything that is missing. Raises StagingError if that fails."""
    tally = Tally(report)
    tally.say("listing")
    listings = [list_source(source, retry_s=retry_s) for source in sources]
    tally.of_bytes = sum(listing.size for listing in listings)
    tally.say("")
    for listing in listings:
        folder = StagedFolder(Path(listing.source.folder), listing.source.address)
        try:
            with folder.locked(lambda: tally.say("another pod fetches into the same volume")):
                tally.say("")
                Fetch(folder, listing, tally, sleep).run()
        except OSError as error:
            raise staging_errors.of_disk(error, listing.source.folder) from None
    tally.say("")


def list_source(source: DataSource, *, retry_s: float = 180.0) -> Listing:
    """List the object at the address, or all objects below it. Raises StagingError if there are none, or too many."""
    parent, _, name = source.address.rstrip("/").rpartition("/")
    try:
        if source.address.startswith(("http://", "https://")):
            store = ObjectStore(parent, retry_s=retry_s)
            objects = {checked_name(name): store.head(name)}
        else:
            store = ObjectStore(source.address, retry_s=retry_s)
            objects = _below(store)
            if not objects and not parent.endswith(":/"):  # of a bucket there is no object
                store = ObjectStore(parent, retry_s=retry_s)
                objects = {checked_name(name): store.head(name)}
    except (BaseError, FileNotFoundError) as error:
        raise staging_errors.of_store(error, source.address) from None
    if not objects:
        raise StagingError("DataNotFound", f"there is nothing at {source.address}; correct spec.data[].from")
    listing = Listing(source, store, objects)
    if 0 < source.limit_bytes < listing.size:
        raise StagingError(
            "DataTooLarge",
            f"{source.address} has {listing.size} bytes, and its sizeLimit is {source.limit_bytes}; raise"
            " spec.data[].sizeLimit, or name less of it",
        )
    return listing


def _below(store: ObjectStore) -> dict[str, StoredObject]:
    """Objects by their names, without the empty objects that some programs put in place of folders."""
    found: dict[str, StoredObject] = {}
    for item in store.objects():
        found[checked_name(item.path)] = item
        if len(found) > OBJECTS_MAX:
            raise StagingError("DataTooLarge", f"there are more than {OBJECTS_MAX} objects; pack them into archives")
    folders = {str(parent) for name in found for parent in Path(name).parents}
    for name in folders & found.keys():
        if found[name].size:
            raise StagingError("DataNameRefused", f"the object {name!r} is a file and a folder at once")
        del found[name]
    return found


@dataclass(frozen=True, slots=True)
class Fetch:
    """Fetches the objects of one listing that a folder lacks."""

    folder: StagedFolder
    listing: Listing
    tally: Tally
    sleep: Callable[[float], None]

    def run(self) -> None:
        missing = {name: item for name, item in self.listing.objects.items() if not self.folder.has(name, item)}
        needed = sum(item.size for item in missing.values())
        self.tally.add(self.listing.size - needed)
        if needed > (free := self.folder.free_bytes()):
            raise StagingError(
                "DataDiskFull",
                f"{self.folder.path} has {free} bytes free, and {needed} are to be fetched from {self.folder.source};"
                " let `to` lie in a larger volume, or fetch less",
            )
        pool = ThreadPoolExecutor(AT_ONCE)
        try:
            for job in [pool.submit(self._fetch, name, item) for name, item in missing.items()]:
                job.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # after an error: reads that hang are not waited for

    def _fetch(self, name: str, item: StoredObject) -> None:
        """Fetch one object. It is started again if its store stops answering."""
        for attempt in range(TRIES):
            counted = [0]
            try:
                chunks = self.listing.store.read(item.path, item.etag)
                self.folder.write(name, item, _counted(chunks, self.tally, counted))
                return
            except (BaseError, FileNotFoundError) as error:
                if isinstance(error, FileNotFoundError) and error.errno is not None:
                    raise  # of the disk: obstore's have no number
                problem = staging_errors.of_store(error, f"{self.folder.source.rstrip('/')} ({name})")
            self.tally.add(-counted[0])
            if problem.reason != "DataUnreachable" or attempt == TRIES - 1:
                raise problem
            self.tally.say(f"the store did not answer for {name}; trying again")
            self.sleep(PAUSE_S * 2**attempt)
            self.tally.say("")


def _counted(chunks: Iterator[Any], tally: Tally, counted: list[int]) -> Iterator[Any]:
    for chunk in chunks:
        yield chunk
        counted[0] += len(chunk)
        tally.add(len(chunk))


def main() -> None:
    """Stage the data of this pod's contract. Reports go to the descriptor given as the first argument."""
    descriptor = int(sys.argv[1])

    def report(message: StagingReport) -> None:
        os.write(descriptor, STAGING_REPORTS.encode(message))

    try:
        stage(Contract.from_environment(os.environ).data, report)
    except StagingError as error:
        report(StagingRefused(error.reason, error.message, error.retriable))
        os._exit(1)  # other threads may be in the middle of a read
    os._exit(0)


if __name__ == "__main__":
    main()
