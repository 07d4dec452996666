"""Cotenant: share GPU nodes among tenants on Kubernetes.

For programs: `Client` and `Job` ask for training jobs and follow them, `worker()` is the side of the program that
trains. Nothing heavy is imported before a name is used: the worker and the agent read `cotenant.names` and
`cotenant.contract` from the same wheel without the operator's dependencies.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cotenant.sdk.async_client import AsyncClient
    from cotenant.sdk.client import Client, Run
    from cotenant.sdk.errors import AccessDeniedError as AccessDenied
    from cotenant.sdk.errors import ClusterUnreachableError as ClusterUnreachable
    from cotenant.sdk.errors import CotenantError
    from cotenant.sdk.errors import CredentialsError as NoCredentials
    from cotenant.sdk.errors import InvalidJobError as InvalidJob
    from cotenant.sdk.errors import JobFailedError as JobFailed
    from cotenant.sdk.errors import JobTimeoutError as JobTimeout
    from cotenant.sdk.errors import MissingObjectError as MissingObject
    from cotenant.sdk.errors import RequestRefusedError as Refused
    from cotenant.sdk.job import JobRequest as Job
    from cotenant.sdk.objects.async_sweep import BestResult as BestTrial
    from cotenant.sdk.objects.async_sweep import TrialResult as Trial
    from cotenant.sdk.objects.handles import SessionHandle as Session
    from cotenant.sdk.objects.handles import SweepHandle as Sweep
    from cotenant.sdk.objects.requests import Range
    from cotenant.sdk.plan import SubmissionPlan as Plan
    from cotenant.sdk.worker_side import worker

__version__ = "0.1.0"

__all__ = [
    "AccessDenied",
    "AsyncClient",
    "BestTrial",
    "Client",
    "ClusterUnreachable",
    "CotenantError",
    "InvalidJob",
    "Job",
    "JobFailed",
    "JobTimeout",
    "MissingObject",
    "NoCredentials",
    "Plan",
    "Range",
    "Refused",
    "Run",
    "Session",
    "Sweep",
    "Trial",
    "worker",
]

_HOMES = {
    "AccessDenied": "errors.AccessDeniedError",
    "AsyncClient": "async_client.AsyncClient",
    "BestTrial": "objects.async_sweep.BestResult",
    "Client": "client.Client",
    "ClusterUnreachable": "errors.ClusterUnreachableError",
    "CotenantError": "errors.CotenantError",
    "InvalidJob": "errors.InvalidJobError",
    "Job": "job.JobRequest",
    "JobFailed": "errors.JobFailedError",
    "JobTimeout": "errors.JobTimeoutError",
    "MissingObject": "errors.MissingObjectError",
    "NoCredentials": "errors.CredentialsError",
    "Plan": "plan.SubmissionPlan",
    "Range": "objects.requests.Range",
    "Refused": "errors.RequestRefusedError",
    "Run": "client.Run",
    "Session": "objects.handles.SessionHandle",
    "Sweep": "objects.handles.SweepHandle",
    "Trial": "objects.async_sweep.TrialResult",
    "worker": "worker_side.worker",
}
"""Name → module and name in `cotenant.sdk`."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _HOMES[name].rpartition(".")
    return getattr(import_module(f"{__name__}.sdk.{module}"), attribute)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
