"""Why a RemoteCluster cannot be used, in words that say what to do."""

from __future__ import annotations

from cotenant import names
from cotenant.controller.client.kube import MissingKindError, RefusedListError, UnreachableError


class TroubleError(RuntimeError):
    def __init__(self, reason: str, message: str) -> None:
        """`reason` is that of the condition `Reachable`."""
        super().__init__(message)
        self.reason, self.message = reason, message


def trouble_of(error: UnreachableError, secret: str) -> TroubleError:
    """What an error of the cluster there means."""
    if isinstance(error, MissingKindError):
        return TroubleError(
            "NoCotenant",
            f"the cluster serves no TrainingJobs of {names.API_VERSION}: install Cotenant there, of this release or a"
            " newer one",
        )
    if isinstance(error, RefusedListError) and error.code == 401:
        return TroubleError(
            "Unauthorized",
            f"the cluster does not know the account of Secret {secret}: its token or certificate is wrong or has"
            " expired; write a new kubeconfig into the Secret",
        )
    if isinstance(error, RefusedListError) and error.code == 403:
        return TroubleError(
            "Forbidden",
            "the account of the kubeconfig may not list TrainingJobs there: bind it to the role cotenant-remote-jobs"
            f" there ({error})",
        )
    last = str(error).rpartition("; last: ")[2]  # without the request: a reader here cannot repeat it there
    return TroubleError("Unreachable", f"the cluster does not answer: {last}")
