"""Why data cannot be staged: a reason, a sentence for the tenant, and whether another attempt may help."""

from __future__ import annotations

import errno
import re
from typing import Final

from obstore.exceptions import (
    BaseError,
    InvalidPathError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

_DENIED: Final = re.compile(r"status code: (401|403)\b")
_MISSING: Final = re.compile(r"status code: 404\b|NoSuchBucket")
_MISCONFIGURED: Final = re.compile(r"Generic Config error|Unknown ?Configuration|not recognized|MissingRegion")
_NO_CREDENTIALS: Final = re.compile(r"169\.254\.169\.254|metadata\.google")
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_SENTENCE_CHARS: Final = 300


class StagingError(Exception):
    """Data that cannot be staged. `retriable` is true if another attempt may succeed."""

    def __init__(self, reason: str, message: str, *, retriable: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.retriable = retriable


def of_store(error: BaseError | FileNotFoundError, address: str) -> StagingError:
    """The StagingError for an error of obstore about the data at `address`."""
    text = str(error)
    if isinstance(error, InvalidPathError):
        return StagingError("DataNameRefused", f"{address} has an object whose name is no path: {_sentence(text)}")
    if isinstance(error, PermissionDeniedError | UnauthenticatedError) or _DENIED.search(text):
        return StagingError(
            "DataDenied",
            f"the store refuses to give {address}: {_sentence(text)}; check that the keys in spec.runtime.env may list"
            ' and read it (AWS_SKIP_SIGNATURE: "true" reads a public bucket)',
        )
    if _NO_CREDENTIALS.search(text):
        return StagingError(
            "DataDenied",
            f"there are no credentials for {address}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in"
            ' spec.runtime.env from a Secret, or AWS_SKIP_SIGNATURE: "true" for a public bucket',
        )
    if isinstance(error, FileNotFoundError) or _MISSING.search(text):
        return StagingError("DataNotFound", f"there is nothing at {address}; correct spec.data[].from")
    if isinstance(error, PreconditionError):
        return StagingError("DataChanged", f"{address} changed while it was fetched", retriable=True)
    if _MISCONFIGURED.search(text):
        return StagingError("DataMisconfigured", f"{address} cannot be opened: {_sentence(text)}")
    return StagingError(
        "DataUnreachable",
        f"the store of {address} does not answer: {_sentence(text)}; where it never did, the network of jobs may be"
        " closed to it",
        retriable=True,
    )


def of_disk(error: OSError, folder: str) -> StagingError:
    """The StagingError for an error of the file system below `folder`."""
    if error.errno in _FULL:
        return StagingError(
            "DataDiskFull",
            f"{folder} is full: the volume has no room for the data; let `to` lie in a larger volume, or fetch less",
        )
    why = error.strerror or str(error)
    return StagingError("DataNotWritable", f"nothing can be written to {folder}: {why}")


def _sentence(text: str) -> str:
    """The first line of an error of obstore, without the details for its developers."""
    line = text.strip().partition("\n")[0].strip()
    return line if len(line) <= _SENTENCE_CHARS else line[: _SENTENCE_CHARS - 1] + "…"
