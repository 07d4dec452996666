"""Descriptions of sweeps and sessions, and the documents made from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from cotenant import names
from cotenant.api.conversion.to_core import parse_session, parse_sweep
from cotenant.sdk.errors import InvalidJobError
from cotenant.sdk.gpu_request import GpuText, gpu_spec
from cotenant.sdk.job import JobRequest, check

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Range:
    """Values from `low` to `high`: whole numbers if both are, otherwise any numbers."""

    low: float
    high: float
    log: bool = False
    """As many trials between 1 and 10 as between 10 and 100."""
    step: int | None = None
    """Distance of whole numbers, counted from `low`."""

    def document(self) -> Document:
        found: Document = {"min": self.low, "max": self.high}
        if self.log:
            found["scale"] = "Log"
        if isinstance(self.low, int) and isinstance(self.high, int):
            return {"integer": found | ({} if self.step is None else {"step": self.step})}
        if self.step is not None:
            raise InvalidJobError(["parameters: step is for whole numbers; give low and high as whole numbers too"])
        return {"number": found | {"min": float(self.low), "max": float(self.high)}}


Values: TypeAlias = Range | Sequence[object]


def sweep_documents(
    job: JobRequest,
    *,
    parameters: Mapping[str, Values],
    metric: str,
    goal: str,
    max_trials: int,
    algorithm: str,
    parallelism: int,
    spec: Mapping[str, Any],
    namespace: str,
    queue: str,
    suffix: str,
) -> tuple[Document, Document | None]:
    """(Sweep, ConfigMap with the code of its jobs or None). Raises InvalidJobError, as the API server would refuse it.

    A parameter that the job's args and env do not name is passed as an argument: `--lr=$(params.lr)`.
    """
    whole, code = job.documents(namespace, queue, suffix)
    template = whole["spec"]
    runtime = template["runtime"]
    told = [*runtime["command"], *runtime.get("args", ()), *(one.get("value", "") for one in runtime.get("env", ()))]
    untold = [name for name in parameters if not any(f"$(params.{name})" in str(text) for text in told)]
    if untold:
        runtime["args"] = [*runtime.get("args", ()), *(f"--{name}=$(params.{name})" for name in untold)]
    document = {
        "apiVersion": names.API_VERSION,
        "kind": "Sweep",
        "metadata": whole["metadata"],
        "spec": {
            "algorithm": algorithm,
            "parameters": [{"name": name, **_values(values)} for name, values in parameters.items()],
            "objective": {"metric": metric, "goal": goal},
            "maxTrials": max_trials,
            "parallelism": parallelism,
            "template": {"spec": template},
            **spec,
        },
    }
    check(document, parse_sweep)
    return document, code


def _values(values: Values) -> Document:
    if isinstance(values, Range):
        return values.document()
    return {"choices": [str(one) for one in values]}


def session_document(
    application: str,
    *,
    name: str,
    gpu: GpuText | Sequence[str] | None,
    profile: str,
    image: str | None,
    volume: str | None,
    spec: Mapping[str, Any],
    namespace: str,
    queue: str,
) -> Document:
    """The Session. Raises InvalidJobError, as the API server would refuse it."""
    found: Document = {"application": application, "queue": queue}
    try:
        if gpu is not None or not profile:
            found["gpu"] = gpu_spec(1 if gpu is None else gpu)
    except ValueError as error:
        raise InvalidJobError([str(error)]) from error
    given = {"profile": profile, "image": image, "volume": {"claimName": volume} if volume else None}
    document = {
        "apiVersion": names.API_VERSION,
        "kind": "Session",
        "metadata": {"name": name, "namespace": namespace},
        "spec": found | {key: value for key, value in given.items() if value} | dict(spec),
    }
    check(document, parse_session)
    return document
