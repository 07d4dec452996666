"""The errors of the library, as exceptions that a program can tell apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class CotenantError(Exception):
    """Parent of all errors that this library raises for a reason outside the program."""

    code: int = 0
    """HTTP status of the API server's refusal; 0 if it gave no answer."""


class ClusterUnreachableError(CotenantError):
    """The API server, or the operator behind it, does not answer now. Asking again may help."""


class CredentialsError(CotenantError):
    """No cluster and credentials were found, neither in a kubeconfig nor in a pod."""


class AccessDeniedError(CotenantError):
    """The caller may not do this."""


class MissingObjectError(CotenantError):
    """There is no such job, queue or question."""


class RequestRefusedError(CotenantError):
    """The API server or the operator refuses the request. The message names the field."""


class InvalidJobError(RequestRefusedError):
    """The description of the job is invalid. Nothing was sent. `problems` has a sentence for each field."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


class ClusterNeededError(CotenantError):
    """This machine alone cannot do it."""


class JobTimeoutError(CotenantError, TimeoutError):
    """The job has not ended in the caller's time. It goes on."""


class JobFailedError(CotenantError):
    """The job has ended without success."""

    def __init__(
        self,
        job: str,
        reason: str,
        message: str,
        *,
        rank: int | None = None,
        exit_code: int | None = None,
        remote_traceback: str = "",
    ) -> None:
        """`job` is NAMESPACE/NAME. `rank` is the first rank that failed by itself, with its exit code and its last
        lines.
        """
        where = f", rank {rank}" if rank is not None else ""
        super().__init__(f"{job}{where}: {reason}: {message}" if message else f"{job}{where}: {reason}")
        self.job = job
        self.reason = reason
        self.message = message
        self.rank = rank
        self.exit_code = exit_code
        self.remote_traceback = remote_traceback

    def __str__(self) -> str:
        said = super().__str__()
        return f"{said}\n\n{self.remote_traceback}" if self.remote_traceback else said


def failure(job: str, status: Mapping[str, Any]) -> JobFailedError:
    """The error of a job that ended without success, from its status."""
    ended = status.get("lastExit") or {}
    return JobFailedError(
        job,
        str(status.get("reason") or ended.get("reason") or "Failed"),
        str(status.get("message") or ended.get("message") or ""),
        rank=ended.get("rank"),
        exit_code=ended.get("code"),
        remote_traceback="\n".join(ended.get("tail") or ()),
    )
