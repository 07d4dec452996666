"""`status.progress.staging`: how much of a job's data its pods have fetched, and how long that took."""

from __future__ import annotations

from pydantic import Field

from cotenant.api.validation.rules import StatusModel


class StagingStatus(StatusModel):
    """All pods together. The GPUs are held meanwhile."""

    fetched_bytes: int = Field(default=0, ge=0)
    """Bytes that they have."""
    of_bytes: int = Field(default=0, ge=0)
    """Bytes to fetch, as far as the pods have listed them."""
    bytes_per_second: int = Field(default=0, ge=0)
    """On average."""
    seconds: int = Field(default=0, ge=0)
    """Seconds since it began; when all data is there, how long it took."""
