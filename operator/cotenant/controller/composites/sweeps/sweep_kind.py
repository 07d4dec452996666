"""The next step of a sweep, from its document and its jobs. Pure.

The status is written first, and the next look acts on it: a trial is in the status before its jobs are made, and it is
marked as stopped there before its jobs are stopped. So a new leader finishes what a crash has interrupted. The name of
a job follows from the sweep and the number of the trial, and a job that was seen once is not made again: each trial
runs once.

Jobs are made only if the status has nothing new to say, so a refused job does not hold up other news.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cotenant import names
from cotenant.api.conversion.to_core import parse_sweep, unix_seconds
from cotenant.api.resources.sweeps.sweep import Sweep
from cotenant.api.resources.sweeps.sweep_status import OVER, SweepPhase, TrialPhase, TrialStatus
from cotenant.controller.client.kube import SWEEPS, TRAINING_JOBS
from cotenant.controller.client.merge_patch import difference
from cotenant.controller.composites.composite import Composite, Create, Delete, Observed, Patch, Write, Writes
from cotenant.controller.composites.sweeps import status, trials
from cotenant.controller.composites.sweeps.trial_jobs import TrialJob, job_name, trial_job
from cotenant.controller.composites.sweeps.trials import Trials
from cotenant.controller.lifecycle.observation import EventToRecord

NAME_RETRY_S: Final = 20.0
"""A name that was in use is tried again after this time."""


class SweepKind(Composite):
    """Sweep as a composite."""

    resource = SWEEPS
    kind = "Sweep"
    owns = (TRAINING_JOBS,)
    computes = True

    def decide(self, observed: Observed, now: float) -> Writes:
        sweep = parse_sweep(observed.document)
        jobs = {name: TrialJob(document) for name, document in observed.of(TRAINING_JOBS).items()}
        written = {int(number): trial for number, trial in sweep.status.trials.items()}
        now_trials = next_trials(sweep, jobs, written, observed.taken)
        wanted = status.summarized(sweep, jobs, now_trials, now).to_document()
        objects = (*_stops(sweep, jobs, written), *_held_back(sweep, jobs, written))
        if difference(observed.status, wanted):
            return Writes(objects=objects, status=wanted, events=tuple(_events(sweep, written, now_trials, wanted)))
        if (ends_at := _goes_at(sweep)) is not None and now >= ends_at:
            return Writes(objects=(Delete(SWEEPS, observed.document),))
        look_again_at = now + NAME_RETRY_S if next(trials.held_up(written), None) is not None else ends_at
        return Writes(objects=(*objects, *_creations(sweep, observed, jobs, written)), look_again_at=look_again_at)


def _goes_at(sweep: Sweep) -> float | None:
    """Unix seconds at which `ttlAfterFinished` deletes the sweep."""
    ttl_s, ended_at = sweep.spec.ttl_after_finished, unix_seconds(sweep.status.finished_at)
    return None if ttl_s is None or ended_at is None else ended_at + ttl_s


def next_trials(
    sweep: Sweep, jobs: Mapping[str, TrialJob], written: Trials, taken: frozenset[str] = frozenset()
) -> Trials:
    """The trials as they are now, with those that begin. `taken` are names of jobs that belong to somebody else."""
    spec = sweep.spec
    seen = {number: trials.observed(sweep, jobs, number, one, taken) for number, one in sorted(written.items())}
    compared = trials.halved(sweep, jobs, seen)
    if status.has_failed(spec, compared):
        return {number: _ended(one) for number, one in compared.items()}
    return compared if spec.suspend else trials.with_new(sweep, compared)


def _ended(trial: TrialStatus) -> TrialStatus:
    """The trial of a sweep that has failed."""
    if trial.phase in OVER:
        return trial
    message = "stopped by the sweep: too many of its trials have failed"
    return trial.model_copy(update={"phase": TrialPhase.STOPPED, "message": message})


def _stops(sweep: Sweep, jobs: Mapping[str, TrialJob], written: Trials) -> Iterator[Write]:
    """Jobs that run or wait although their trials are over."""
    for number, trial in sorted(written.items()):
        if trial.phase not in OVER:
            continue
        for job in trials.jobs_of(sweep, jobs, number).values():
            if not job.is_over and not job.is_asked_to_stop:
                said = trial.message or f"trial {number} of the sweep is over"
                yield Patch(TRAINING_JOBS, job.document, {"metadata": {"annotations": {names.ANNOTATION_STOP: said}}})


def _held_back(sweep: Sweep, jobs: Mapping[str, TrialJob], written: Trials) -> Iterator[Write]:
    """Jobs to suspend or resume with the sweep. This is done once; what somebody does to a job later is left alone."""
    if sweep.spec.suspend == sweep.status.suspended:
        return
    for number in trials.active(written):
        for job in trials.jobs_of(sweep, jobs, number).values():
            if not job.is_over and job.is_suspended != sweep.spec.suspend:
                yield Patch(TRAINING_JOBS, job.document, {"spec": {"suspend": sweep.spec.suspend}})


def _creations(sweep: Sweep, observed: Observed, jobs: Mapping[str, TrialJob], written: Trials) -> Iterator[Write]:
    if sweep.spec.suspend:
        return
    template: Mapping[str, Any] = observed.document["spec"]["template"]["spec"]
    for number in trials.may_be_made(sweep, written):
        trial = written[number]
        for member in range(sweep.spec.members):
            name = job_name(sweep, number, member)
            if member not in trial.seen and name not in jobs and name not in observed.taken:
                made = trial_job(sweep, template, number, member, trial.parameters)
                yield Create(TRAINING_JOBS, made, goes_on=True)


def _events(sweep: Sweep, before: Trials, after: Trials, wanted: Mapping[str, Any]) -> Iterator[EventToRecord]:
    for number, trial in sorted(after.items()):
        known = before.get(number)
        if known is not None and trials.waits_for_a_name(trial) and not trials.waits_for_a_name(known):
            yield EventToRecord(reason="NameTaken", message=f"trial {number} waits: {trial.message}", warning=True)
        if (
            known is not None
            and known.phase is not trial.phase
            and trial.phase in {TrialPhase.STOPPED, TrialPhase.FAILED}
        ):
            failed = trial.phase is TrialPhase.FAILED
            yield EventToRecord(
                reason=f"Trial{trial.phase}", message=f"trial {number}: {trial.message}", warning=failed
            )
    phase = wanted.get("phase")
    if phase != sweep.status.phase and phase in {SweepPhase.SUCCEEDED, SweepPhase.FAILED, SweepPhase.SUSPENDED}:
        yield EventToRecord(
            reason=str(wanted["reason"]), message=str(wanted["message"]), warning=phase == SweepPhase.FAILED
        )
