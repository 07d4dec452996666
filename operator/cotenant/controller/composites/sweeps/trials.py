"""What becomes of the trials of a sweep: their state is read from their jobs, they are compared at rungs, and new ones
are chosen. Pure.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from cotenant.api.advice.near_names import nearest
from cotenant.api.resources.sweeps.sweep import Combination, EarlyStop, Goal, Sweep, SweepSpec
from cotenant.api.resources.sweeps.sweep_status import OVER, Rung, TrialPhase, TrialStatus
from cotenant.controller.composites.sweeps import search
from cotenant.controller.composites.sweeps.trial_jobs import TrialJob, job_name
from cotenant.core.model.lifecycle import HOLDING, Phase

Trials = dict[int, TrialStatus]
_COMBINED: Final[Mapping[Combination, Callable[[Sequence[float]], float]]] = {
    Combination.MEAN: statistics.fmean,
    Combination.MEDIAN: statistics.median,
    Combination.MIN: min,
    Combination.MAX: max,
}
_SHOWN: Final = 8
_TAKEN: Final = "TrainingJob {name} is there already, and is not this sweep's: delete it"
BEGUN_AT_ONCE: Final = 10
"""One decision adds at most this many trials, so that none takes long. The next follows when these are written."""


def jobs_of(sweep: Sweep, jobs: Mapping[str, TrialJob], number: int) -> dict[int, TrialJob]:
    """Member → its job, if it exists."""
    places = {member: job_name(sweep, number, member) for member in range(sweep.spec.members)}
    return {member: jobs[name] for member, name in places.items() if name in jobs}


def observed(
    sweep: Sweep, jobs: Mapping[str, TrialJob], number: int, trial: TrialStatus, taken: frozenset[str] = frozenset()
) -> TrialStatus:
    """The trial as its jobs show it. A finished trial stays as it is, except that a stopped one whose jobs ended by
    themselves before the stop reached them gets its result. `taken` are names that its jobs cannot have now.
    """
    mine = jobs_of(sweep, jobs, number)
    if trial.phase is TrialPhase.STOPPED and all(
        member in mine and mine[member].phase is Phase.SUCCEEDED for member in range(sweep.spec.members)
    ):
        ended = _succeeded(sweep.spec, trial, mine)
        return trial if ended.phase is TrialPhase.FAILED else ended
    if trial.phase in OVER:
        return trial
    seen = tuple(sorted({*trial.seen, *mine}))
    missing = [job_name(sweep, number, member) for member in range(sweep.spec.members) if member not in seen]
    told = next((_TAKEN.format(name=name) for name in missing if name in taken), trial.message if missing else "")
    trial = trial.model_copy(update={"seen": seen, "message": told})
    deleted = [job_name(sweep, number, member) for member in seen if member not in mine]
    if deleted:
        return _failed(trial, f"its TrainingJob {deleted[0]} was deleted")
    if (stopped := next((one for one in mine.values() if one.was_stopped), None)) is not None:
        return trial.model_copy(update={"phase": TrialPhase.STOPPED, "message": stopped.message})
    if (failed := next((one for one in mine.values() if one.is_over and one.phase == "Failed"), None)) is not None:
        return _failed(trial, f"{failed.name}: {failed.message}")
    if len(mine) == sweep.spec.members and all(one.is_over for one in mine.values()):
        return _succeeded(sweep.spec, trial, mine)
    running = any(one.phase in HOLDING or one.is_over for one in mine.values())
    return trial.model_copy(update={"phase": TrialPhase.RUNNING if running else TrialPhase.WAITING})


def _failed(trial: TrialStatus, message: str) -> TrialStatus:
    return trial.model_copy(update={"phase": TrialPhase.FAILED, "message": message})


def _succeeded(spec: SweepSpec, trial: TrialStatus, jobs: Mapping[int, TrialJob]) -> TrialStatus:
    metric = spec.objective.metric
    values = {member: job.metric(metric) for member, job in jobs.items()}
    for member, value in values.items():
        if value is None or not math.isfinite(value):
            return _failed(trial, _no_metric(jobs[member], metric, value))
    numbers = {member: value for member, value in values.items() if value is not None}
    fields = {
        "phase": TrialPhase.SUCCEEDED,
        "message": "",
        "step": max(job.step for job in jobs.values()),
        "value": numbers[0] if spec.ensemble is None else _COMBINED[spec.ensemble.combine](list(numbers.values())),
        "members": {} if spec.ensemble is None else {str(member): value for member, value in numbers.items()},
    }
    return trial.model_copy(update=fields)


def _no_metric(job: TrialJob, metric: str, value: float | None) -> str:
    if value is not None:
        return f"{job.name} ended with {metric} = {value}"
    reported = sorted(job.results)
    near = nearest(metric, reported)
    if not reported:
        return f"{job.name} ended without the metric {metric}, or any other: report it with cotenant_worker.report"
    meant = f"; did you mean {near}?" if near else ""
    return f"{job.name} ended without the metric {metric}; it reported {', '.join(reported[:_SHOWN])}{meant}"


def halved(sweep: Sweep, jobs: Mapping[str, TrialJob], trials: Trials) -> Trials:
    """The trials after each that has reached a rung was compared with those that reached it before. A trial with no
    step left is not compared: its result is at hand, and no GPU time would be saved.
    """
    rules, spec = sweep.spec.early_stop, sweep.spec
    if rules is None:
        return trials
    after = {
        number: _with_passed_rungs(rules, one) if one.phase is TrialPhase.SUCCEEDED else one
        for number, one in trials.items()
    }
    study: search.Study | None = None
    for number in sorted(trials):
        job = jobs.get(job_name(sweep, number))
        if after[number].phase is not TrialPhase.RUNNING or job is None or job.is_done:
            continue
        step, value, rung = job.step, job.metric(spec.objective.metric), search.next_rung(rules, after[number])
        if value is None or rung is None or step < rung:
            continue
        study = study or search.Study(spec, after)
        verdict = study.judge(rules, number, step=step, value=value)
        new = tuple(Rung(step=step, value=value) for _ in range(verdict.rungs - len(after[number].rungs)))
        # JSON has no NaN, and what is none is compared with nothing.
        kept = (*after[number].rungs, *new) if math.isfinite(value) else after[number].rungs
        after[number] = after[number].model_copy(update={"rungs": kept})
        if verdict.stop:
            said = _stopped_message(spec, after, number, step=step, value=value)
            fields = {"phase": TrialPhase.STOPPED, "step": step, "message": said}
            fields |= {"value": value} if math.isfinite(value) else {}
            after[number] = after[number].model_copy(update=fields)
    return after


def _with_passed_rungs(rules: EarlyStop, trial: TrialStatus) -> TrialStatus:
    """The trial with all rungs that it has passed. If it ended before a look, its final value counts."""
    while (
        trial.value is not None and (rung := search.next_rung(rules, trial)) is not None and rung <= (trial.step or 0)
    ):
        passed = Rung(step=trial.step or rung, value=trial.value)
        trial = trial.model_copy(update={"rungs": (*trial.rungs, passed)})
    return trial


def _stopped_message(spec: SweepSpec, trials: Trials, number: int, *, step: int, value: float) -> str:
    if not math.isfinite(value):
        return f"stopped by the sweep at step {step}: its {spec.objective.metric} is {value}"
    index = len(trials[number].rungs) - 1
    others = [one.rungs[index].value for one in trials.values() if len(one.rungs) > index]
    place = 1 + sum(is_better(spec, other, value) for other in others)
    return f"stopped by the sweep at step {step}: {_ordinal(place)} of {len(others)} at this rung"


def _ordinal(number: int) -> str:
    teen = 10 <= number % 100 <= 20
    return f"{number}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def is_better(spec: SweepSpec, one: float, other: float) -> bool:
    return one < other if spec.objective.goal is Goal.MINIMIZE else one > other


def active(trials: Trials) -> Iterator[int]:
    """Numbers of the trials that are not over."""
    return (number for number in sorted(trials) if trials[number].phase not in OVER)


def waits_for_a_name(trial: TrialStatus) -> bool:
    """True if one of its jobs cannot be made because a TrainingJob of somebody else has the name."""
    return trial.phase not in OVER and bool(trial.message)


def held_up(trials: Trials) -> Iterator[int]:
    """Numbers of the trials that wait for a name."""
    return (number for number in active(trials) if waits_for_a_name(trials[number]))


def _room(sweep: Sweep, trials: Trials) -> int:
    """How many trials may begin now. A trial that waits for a name and has no job yet takes no place."""
    idle = sum(1 for number in held_up(trials) if not trials[number].seen)
    return sweep.spec.parallelism - sum(1 for _ in active(trials)) + idle


def may_be_made(sweep: Sweep, trials: Trials) -> Iterator[int]:
    """Numbers of the trials whose jobs may be made now. Those that wait for a name are included as far as there is
    room.
    """
    room = _room(sweep, trials)
    for number in active(trials):
        if waits_for_a_name(trials[number]) and not trials[number].seen:
            room -= 1
            if room < 0:
                continue
        yield number


def with_new(sweep: Sweep, trials: Trials) -> Trials:
    """The trials, with as many new ones as may begin now, at most `BEGUN_AT_ONCE`."""
    room = min(BEGUN_AT_ONCE, _room(sweep, trials), sweep.spec.points - len(trials))
    if room <= 0:
        return trials
    after, study = dict(trials), search.Study(sweep.spec, trials)
    for number in range(len(trials), len(trials) + room):
        after[number] = TrialStatus(parameters=study.suggest())
    return after


def best(spec: SweepSpec, trials: Trials) -> int | None:
    """Number of the best trial that has ended by itself; the first of equals."""
    found: int | None = None
    for number in sorted(trials):
        value = trials[number].value
        if trials[number].phase is not TrialPhase.SUCCEEDED or value is None:
            continue
        incumbent = trials[found].value if found is not None else None
        if incumbent is None or is_better(spec, value, incumbent):
            found = number
    return found
