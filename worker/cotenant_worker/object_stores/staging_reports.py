"""Reports of the process that stages data to process 1, which does not import obstore: one JSON line each."""

from __future__ import annotations

from typing import Final, TypeAlias

from cotenant_worker.messaging.codec import Codec
from cotenant_worker.messaging.records import record


@record
class StagingProgress:
    """Bytes of all data of one pod. `fetched_bytes` includes what was there before."""

    fetched_bytes: int
    of_bytes: int
    note: str = ""
    """What delays it; empty if nothing does."""


@record
class StagingRefused:
    """Staging has ended without all data."""

    reason: str
    message: str
    retriable: bool
    """True if another attempt may succeed, because the store did not answer."""


StagingReport: TypeAlias = StagingProgress | StagingRefused

STAGING_REPORTS: Final[Codec[StagingReport]] = Codec({"progress": StagingProgress, "refused": StagingRefused})
