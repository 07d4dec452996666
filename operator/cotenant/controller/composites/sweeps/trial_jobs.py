"""TrainingJobs of trials: their names, their documents, and what is read from them. Pure."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cotenant import names
from cotenant.api.resources.sweeps.references import substituted
from cotenant.api.resources.sweeps.sweep import Sweep
from cotenant.api.resources.sweeps.trial_template import TRIAL_NUMBER, TRIAL_SEED
from cotenant.controller.client.kube import Document
from cotenant.controller.composites.composite import SeenJob
from cotenant.controller.composites.sweeps.search import trial_seed
from cotenant.controller.lifecycle.policies.stop_request import REASON as STOPPED
from cotenant.core.model.lifecycle import TERMINAL, Phase


def job_name(sweep: Sweep, number: int, member: int = 0) -> str:
    """`lr-7`, or `lr-7-2` for a member of an ensemble. It follows from the sweep alone, so that two replicas make one
    object.
    """
    base = f"{sweep.metadata.name}-{number}"
    return f"{base}-{member}" if sweep.spec.ensemble is not None else base


def trial_job(
    sweep: Sweep, template: Mapping[str, Any], number: int, member: int, values: Mapping[str, str]
) -> Document:
    """The TrainingJob, without its owner reference.

    `template` is the spec as the tenant wrote it, `values` are those of the trial. The job belongs to the user who made
    the sweep, so that limits per user count it.
    """
    name = job_name(sweep, number, member)
    user = sweep.metadata.annotations.get(names.ANNOTATION_USER)
    seed = trial_seed(sweep.spec.seed, number, member)
    known = {one.reference: values[one.name] for one in sweep.spec.parameters}
    known |= {TRIAL_NUMBER: str(number), TRIAL_SEED: str(seed)}
    spec = copy.deepcopy(dict(template))
    runtime = spec["runtime"]
    for field in ("command", "args"):
        if runtime.get(field) is not None:
            runtime[field] = [substituted(word, known) for word in runtime[field]]
    variables = [{**one, "value": substituted(one["value"], known)} if one.get("value") else one
                 for one in runtime.get("env") or ()]  # fmt: skip
    variables += [{"name": one.env, "value": values[one.name]} for one in sweep.spec.parameters if one.env is not None]
    if variables:
        runtime["env"] = variables
    if (path := (spec.get("checkpoint") or {}).get("path")) is not None:
        spec["checkpoint"]["path"] = f"{path.rstrip('/')}/{name}"
    return {
        "apiVersion": names.API_VERSION,
        "kind": "TrainingJob",
        "metadata": {
            "name": name,
            "labels": {names.LABEL_SWEEP: sweep.metadata.name or "", names.LABEL_TRIAL: str(number)},
            **({"annotations": {names.ANNOTATION_USER: user}} if user else {}),
        },
        "spec": spec,
    }


@dataclass(frozen=True, slots=True)
class TrialJob(SeenJob):
    """One job of a trial, as last seen."""

    @property
    def progress(self) -> Mapping[str, Any]:
        return self.raw_status.get("progress") or {}

    @property
    def is_over(self) -> bool:
        return self.phase in TERMINAL

    @property
    def was_stopped(self) -> bool:
        return self.phase is Phase.FAILED and self.raw_status.get("reason") == STOPPED

    @property
    def is_asked_to_stop(self) -> bool:
        return names.ANNOTATION_STOP in (self.document["metadata"].get("annotations") or {})

    @property
    def message(self) -> str:
        return str(self.raw_status.get("message") or self.raw_status.get("reason") or "")

    @property
    def why_it_waits(self) -> str:
        """The reason why it waits, in one word; empty if it does not wait, or nothing was decided about it yet."""
        if self.phase is Phase.INVALID:
            return str(self.raw_status.get("reason") or self.phase)
        return str((self.raw_status.get("pending") or {}).get("reason") or "") if self.phase is Phase.PENDING else ""

    @property
    def step(self) -> int:
        return int(self.progress.get("step") or 0)

    @property
    def is_done(self) -> bool:
        """True if its program has made all the steps that it announced, or has ended."""
        return 0 < int(self.progress.get("of") or 0) <= self.step or self.progress.get("state") == "done"

    @property
    def results(self) -> Mapping[str, Any]:
        """The final metrics; without any, the last ones that the job reported."""
        return self.raw_status.get("results") or self.progress.get("metrics") or {}

    def metric(self, name: str) -> float | None:
        """Newest value of the metric. NaN and infinities are texts in a status, and numbers here."""
        found = self.results.get(name) if self.is_over else (self.progress.get("metrics") or {}).get(name)
        try:
            return None if found is None else float(found)
        except ValueError:
            return None

    @property
    def checkpoint_step(self) -> int | None:
        step = (self.progress.get("lastCheckpoint") or {}).get("step")
        return None if step is None else int(step)

    @property
    def checkpoint_path(self) -> str | None:
        """Address in a store, or the folder in its volume; None if it keeps no checkpoint."""
        checkpoint = (self.document.get("spec") or {}).get("checkpoint")
        return None if checkpoint is None else str(checkpoint.get("path") or self.name)
