"""What the process that stages data tells process 1, which imports no obstore: one JSON line each."""

from __future__ import annotations

from typing import Final, TypeAlias

from cotenant_worker.messaging.codec import Codec
from cotenant_worker.messaging.records import record


@record
class StagingProgress:
    """Bytes of all data of one pod; `fetched_bytes` counts what was there before."""

    fetched_bytes: int
    of_bytes: int
    note: str = ""
    """What holds it up; empty: nothing."""


@record
class StagingRefused:
    """It has ended without all data."""

    reason: str
    message: str
    retriable: bool
    """True where another attempt may get further: the store did not answer."""


StagingReport: TypeAlias = StagingProgress | StagingRefused

STAGING_REPORTS: Final[Codec[StagingReport]] = Codec({"progress": StagingProgress, "refused": StagingRefused})
