"""Which values to try next, and which trials to stop: Optuna's samplers and its successive halving.

Each decision builds the study again, in memory, from the trials in the status. Each question has a seed of its own,
from the sweep's seed and the number of the trial. So an answer depends on the document alone, and is the same after a
crash or a change of leader. The library is imported at the first question, so that an operator without sweeps does not
pay for it.

Algorithms: Bergstra et al., "Algorithms for Hyper-Parameter Optimization" (2011) for TPE; Li et al., "A System for
Massively Parallel Hyperparameter Tuning" (2020) for ASHA.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cotenant.api.resources.sweeps.parameters import Parameter, Scale
from cotenant.api.resources.sweeps.sweep import Algorithm, EarlyStop, Goal, SweepSpec
from cotenant.api.resources.sweeps.sweep_status import MAX_MEMBERS, MAX_RUNGS, TrialPhase, TrialStatus

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution

SEEDS: Final = 2**31
_STRIDE: Final = 2_654_435_761
"""Odd, so that no two of them are the same modulo a power of two (Knuth's multiplicative hash)."""


def trial_seed(sweep_seed: int, number: int, member: int = 0) -> int:
    """Seed of a trial, or of one member of it. No two are equal."""
    return (sweep_seed + (number * MAX_MEMBERS + member + 1) * _STRIDE) % SEEDS


@dataclass(frozen=True, slots=True)
class RungVerdict:
    """Result of comparing a trial with the others at the rungs that it has reached."""

    rungs: int
    """Rungs at which it has been compared, including earlier ones."""
    stop: bool


def next_rung(rules: EarlyStop, trial: TrialStatus) -> int | None:
    """Number of steps at which the trial is compared next; None after the last rung."""
    return rules.min_steps * rules.factor ** len(trial.rungs) if len(trial.rungs) < MAX_RUNGS else None


class Study:
    """Optuna's study of a sweep. One decision builds it once, which takes longest, and asks it about many trials. Each
    answer equals that of a study which is built from the trials at that point.
    """

    def __init__(self, spec: SweepSpec, trials: Mapping[int, TrialStatus]) -> None:
        """`trials` are all trials of the sweep, numbered from 0."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        directions = optuna.study.StudyDirection
        direction = directions.MINIMIZE if spec.objective.goal is Goal.MINIMIZE else directions.MAXIMIZE
        self._spec = spec
        self._study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0), direction=direction)
        self._distributions = {one.name: _distribution(one) for one in spec.parameters}
        for number in sorted(trials):
            self._study.add_trial(_frozen(spec, trials[number], self._distributions))

    def suggest(self) -> dict[str, str]:
        """Values of the next trial. The trial counts as running from then on."""
        if not self._spec.parameters:
            return {}
        self._study.sampler = _sampler(self._spec, len(self._study.get_trials(deepcopy=False)))
        asked = self._study.ask(self._distributions)
        return {one.name: _written(asked.params[one.name]) for one in self._spec.parameters}

    def judge(self, rules: EarlyStop, number: int, *, step: int, value: float) -> RungVerdict:
        """Whether the trial goes on, with this value of the objective after so many steps. At a rung that it has
        reached, it is compared with the others, and later trials are compared with it.
        """
        import optuna
        from optuna.pruners._successive_halving import _completed_rung_key

        if not math.isfinite(value):
            value = math.nan  # it would stay in the study, and is in no status
        pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=rules.min_steps, reduction_factor=rules.factor)
        judged = copy.deepcopy(self._study.get_trials(deepcopy=False)[number])
        judged.intermediate_values[step] = value
        stop = pruner.prune(self._study, judged)
        reached = self._study.get_trials(deepcopy=False)[number].system_attrs
        rungs = next(rung for rung in itertools.count() if _completed_rung_key(rung) not in reached)
        if math.isnan(value):
            rungs += 1  # it is stopped before it counts there
        return RungVerdict(min(rungs, MAX_RUNGS), stop)


def _frozen(
    spec: SweepSpec, trial: TrialStatus, distributions: Mapping[str, BaseDistribution]
) -> optuna.trial.FrozenTrial:
    from optuna.pruners._successive_halving import _completed_rung_key
    from optuna.trial import TrialState, create_trial

    rungs = {_completed_rung_key(index): rung.value for index, rung in enumerate(trial.rungs)}
    values: dict[str, Any] = {}
    match trial.phase:
        case TrialPhase.SUCCEEDED:
            state, values = TrialState.COMPLETE, {"value": trial.value}
        case TrialPhase.STOPPED:
            state = TrialState.PRUNED
        case TrialPhase.FAILED:
            state = TrialState.FAIL
        case _:
            state = TrialState.RUNNING
    return create_trial(
        state=state,
        params={one.name: _read(one, trial.parameters[one.name]) for one in spec.parameters},
        distributions=dict(distributions),
        intermediate_values={rung.step: rung.value for rung in trial.rungs if math.isfinite(rung.value)},
        system_attrs={key: value for key, value in rungs.items() if math.isfinite(value)},
        **values,
    )


def _sampler(spec: SweepSpec, number: int) -> optuna.samplers.BaseSampler:
    import optuna

    seed = trial_seed(spec.seed, number)
    match spec.algorithm:
        case Algorithm.GRID:
            # It numbers the points in an order that its seed alone decides, and trial n is point n.
            return optuna.samplers.GridSampler({one.name: _grid(one) for one in spec.parameters}, seed=spec.seed)
        case Algorithm.TPE:
            # Trials that still run count as bad, so that others are tried elsewhere meanwhile.
            return optuna.samplers.TPESampler(seed=seed, constant_liar=True)
        case Algorithm.RANDOM | Algorithm.ASHA:
            return optuna.samplers.RandomSampler(seed=seed)


def _grid(parameter: Parameter) -> list[str | int]:
    if parameter.choices is not None:
        return list(parameter.choices)
    whole = parameter.integer
    return list(range(whole.min, whole.max + 1, whole.step)) if whole is not None else []


def _distribution(parameter: Parameter) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if parameter.choices is not None:
        return CategoricalDistribution(parameter.choices)
    if parameter.integer is not None:
        whole = parameter.integer
        highest = whole.min + (whole.max - whole.min) // whole.step * whole.step
        return IntDistribution(whole.min, highest, log=whole.scale is Scale.LOG, step=whole.step)
    if parameter.number is None:
        raise ValueError(f"parameter {parameter.name} has no values")
    return FloatDistribution(parameter.number.min, parameter.number.max, log=parameter.number.scale is Scale.LOG)


def _read(parameter: Parameter, text: str) -> str | int | float:
    if parameter.choices is not None:
        return text
    return int(text) if parameter.integer is not None else float(text)


def _written(value: Any) -> str:
    """The number with all its digits, as Python reads it back."""
    return value if isinstance(value, str) else repr(value)
