"""Bytes that pods have staged (`contract`), for `status.progress.staging` and as a phrase for a table. Pure."""

from __future__ import annotations

from typing import Final

from cotenant import contract
from cotenant.api.resources.staging_status import StagingStatus

STATE: Final = "staging"
"""How a launcher calls it."""
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def staging_status(progress: contract.Progress) -> StagingStatus | None:
    """Staging status of the job; None if it stages no data.

    Seconds are whole numbers, so that the status is not written for a fraction of one.
    """
    return _status(progress) if progress.state == STATE or progress.staging_bytes else None


def final_staging(termination: contract.Termination) -> StagingStatus | None:
    """The same, from the termination message of rank 0's pod: the last poll may have missed the last bytes."""
    return _status(termination) if termination.staging_bytes else None


def _status(told: contract.Progress | contract.Termination) -> StagingStatus:
    seconds = told.staging_s
    return StagingStatus(
        fetched_bytes=told.staged_bytes,
        of_bytes=told.staging_bytes,
        bytes_per_second=int(told.staged_bytes / seconds) if seconds >= 1 else 0,
        seconds=int(seconds),
    )


def sentence(progress: contract.Progress) -> str:
    """`Staging data 3.1 of 12 GiB`, for a table."""
    return f"Staging data {_of(progress.staged_bytes, progress.staging_bytes)}"


def _of(part: int, whole: int) -> str:
    """Both amounts in the unit of the total."""
    if whole <= 0:
        return "(listing)"
    unit = _unit(whole)
    return f"{_in_unit(part, unit)} of {amount(whole)}"


def amount(count: int) -> str:
    unit = _unit(count)
    return f"{_in_unit(count, unit)} {_UNITS[unit]}"


def _unit(count: int) -> int:
    return min(max(0, count.bit_length() - 1) // 10, len(_UNITS) - 1)


def _in_unit(count: int, unit: int) -> str:
    return f"{count / (1 << 10 * unit):.1f}".removesuffix(".0")
