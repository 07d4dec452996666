"""The status of a sweep, from its trials: counts, the best trial, phase and condition. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from cotenant.api.conversion import conditions
from cotenant.api.resources.sweeps.sweep import Sweep, SweepSpec
from cotenant.api.resources.sweeps.sweep_status import (
    OVER,
    BestTrial,
    SweepPhase,
    SweepStatus,
    TrialCounts,
    TrialPhase,
)
from cotenant.api.resources.trainingjob_status import Condition
from cotenant.api.scalars.fields import moment
from cotenant.controller.composites.sweeps import trials as of_trials
from cotenant.controller.composites.sweeps.trial_jobs import TrialJob, job_name
from cotenant.controller.composites.sweeps.trials import Trials
from cotenant.core.model.formatting import counted

FINISHED: Final = "Finished"


def has_failed(spec: SweepSpec, trials: Trials) -> bool:
    return sum(one.phase is TrialPhase.FAILED for one in trials.values()) > spec.max_failed_trials


def summarized(sweep: Sweep, jobs: Mapping[str, TrialJob], trials: Trials, now: float) -> SweepStatus:
    """The whole status with these trials."""
    before, spec = sweep.status, sweep.spec
    best = _best(sweep, jobs, trials)
    phase, reason = _phase(spec, trials)
    over = phase in {SweepPhase.SUCCEEDED, SweepPhase.FAILED}
    message = _message(spec, trials, best, phase)
    if phase is SweepPhase.RUNNING and (stuck := _stuck(sweep, jobs, trials)) is not None:
        reason = stuck.why_it_waits
        message += (
            f"; no trial runs: {stuck.name} waits with the reason {reason}; see `kubectl cotenant why {stuck.name}`"
        )
    return before.model_copy(
        update={
            "phase": phase,
            "reason": reason,
            "message": message,
            "conditions": _conditions(before, over=over, reason=reason, message=message, now=now, sweep=sweep),
            "trials": {str(number): trials[number] for number in sorted(trials)},
            "counts": _counts(trials),
            "summary": f"{sum(one.phase in OVER for one in trials.values())}/{spec.points}",
            "best": best,
            "best_value": f"{best.value:.6g}" if best is not None else None,
            "suspended": spec.suspend,
            "started_at": before.started_at or moment(now),
            "finished_at": (before.finished_at or moment(now)) if over else None,
            "observed_generation": sweep.metadata.generation,
        }
    )


def _stuck(sweep: Sweep, jobs: Mapping[str, TrialJob], trials: Trials) -> TrialJob | None:
    """A job that waits, if no trial runs. All trials ask for the same GPUs, so one reason stops them all."""
    if any(one.phase is TrialPhase.RUNNING for one in trials.values()):
        return None
    waiting = (job for number in of_trials.active(trials) for job in of_trials.jobs_of(sweep, jobs, number).values())
    return next((job for job in waiting if job.why_it_waits), None)


def _counts(trials: Trials) -> TrialCounts:
    phases = Counter(one.phase for one in trials.values())
    return TrialCounts(
        waiting=phases[TrialPhase.WAITING],
        running=phases[TrialPhase.RUNNING],
        succeeded=phases[TrialPhase.SUCCEEDED],
        stopped=phases[TrialPhase.STOPPED],
        failed=phases[TrialPhase.FAILED],
    )


def _phase(spec: SweepSpec, trials: Trials) -> tuple[SweepPhase, str]:
    if has_failed(spec, trials):
        return SweepPhase.FAILED, "TooManyFailedTrials"
    if len(trials) >= spec.points and all(one.phase in OVER for one in trials.values()):
        found = of_trials.best(spec, trials)
        return (SweepPhase.SUCCEEDED, "Completed") if found is not None else (SweepPhase.FAILED, "NoTrialSucceeded")
    return (SweepPhase.SUSPENDED, "Suspended") if spec.suspend else (SweepPhase.RUNNING, "Running")


def _message(spec: SweepSpec, trials: Trials, best: BestTrial | None, phase: SweepPhase) -> str:
    failed = [one for _, one in sorted(trials.items()) if one.phase is TrialPhase.FAILED]
    if has_failed(spec, trials):
        bound = f"{counted(len(failed), 'trial')} failed, which is more than maxFailedTrials ({spec.max_failed_trials})"
        return f"{bound}; the last of them: {failed[-1].message}"
    found = f"the best is {best.job} with {spec.objective.metric} = {best.value:.6g}" if best is not None else ""
    if phase is SweepPhase.SUCCEEDED:
        return f"{counted(len(trials), 'trial')} made: {found}"
    if phase is SweepPhase.FAILED:
        return "no trial has come to a result" + (f"; the last that failed: {failed[-1].message}" if failed else "")
    held = "spec.suspend is true: no trial goes on until it is set to false; " if spec.suspend else ""
    over = sum(one.phase in OVER for one in trials.values())
    waits = next((f"; trial {number} waits: {trials[number].message}" for number in of_trials.held_up(trials)), "")
    return f"{held}{over} of {counted(spec.points, 'trial')} are over{f'; {found}' if found else ''}{waits}"


def _best(sweep: Sweep, jobs: Mapping[str, TrialJob], trials: Trials) -> BestTrial | None:
    """The best trial, with its results. What was read from its job stays when the job is deleted."""
    number = of_trials.best(sweep.spec, trials)
    value = trials[number].value if number is not None else None
    if number is None or value is None:
        return None
    trial, known = trials[number], sweep.status.best
    mine = of_trials.jobs_of(sweep, jobs, number)
    member = _best_member(sweep.spec, trial.members)
    job = mine.get(member)
    if job is None:
        kept = known if known is not None and known.trial == number else None
        name = job_name(sweep, number, member)
        return kept or BestTrial(trial=number, job=name, value=value, parameters=trial.parameters)
    return BestTrial(
        trial=number,
        job=job.name,
        value=value,
        parameters=trial.parameters,
        results=dict(job.results),
        checkpoint=job.checkpoint_path,
        checkpoint_step=job.checkpoint_step,
    )


def _best_member(spec: SweepSpec, members: Mapping[str, float]) -> int:
    found = 0
    for member, value in sorted((int(key), value) for key, value in members.items()):
        if of_trials.is_better(spec, value, members[str(found)]):
            found = member
    return found


def _conditions(
    before: SweepStatus, *, over: bool, reason: str, message: str, now: float, sweep: Sweep
) -> tuple[Condition, ...]:
    """The condition `Finished`, for `kubectl wait`. Conditions of others stay."""
    known, generation = before.conditions, sweep.metadata.generation
    made = conditions.renewed(known, FINISHED, str(over), reason, message, at=now, generation=generation)
    return conditions.replaced(known, made)
