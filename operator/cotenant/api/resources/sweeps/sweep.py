"""Sweep: the spec that a tenant writes, with its rules."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from cotenant.api.resources.object_meta import ApiVersion, ObjectMeta
from cotenant.api.resources.sweeps import references
from cotenant.api.resources.sweeps.parameters import Parameter
from cotenant.api.resources.sweeps.sweep_status import (
    MAX_MEMBERS,
    MAX_PARAMETERS,
    MAX_TRIALS,
    MAX_VALUES,
    SweepStatus,
)
from cotenant.api.resources.sweeps.trial_template import TRIAL_NUMBER, TRIAL_SEED, TrialTemplate
from cotenant.api.scalars.amounts import Delay
from cotenant.api.scalars.fields import Bool, Str, keyed_by, name_rule, text, whole
from cotenant.api.validation.rules import Model, Rule, TransitionRule

NAME: Final = r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$"
"""Its jobs are called `<sweep>-<trial>` or `<sweep>-<trial>-<member>`, and that has to fit the name of a job."""
MAX_PARALLELISM: Final = 100
_METRIC: Final = r"^[-A-Za-z0-9_./@ ]{1,64}$"


class Algorithm(StrEnum):
    GRID = "Grid"
    RANDOM = "Random"
    TPE = "TPE"
    ASHA = "ASHA"


class Goal(StrEnum):
    MINIMIZE = "Minimize"
    MAXIMIZE = "Maximize"


class Combination(StrEnum):
    MEAN = "Mean"
    MEDIAN = "Median"
    MIN = "Min"
    MAX = "Max"


class Objective(Model):
    """The metric by which trials are compared."""

    metric: Annotated[Str, *text(_METRIC, "must be the name of a metric, such as val_loss", longest=64)]
    """A metric that the program reports, or a result that it ends with."""
    goal: Goal
    """Whether a smaller or a larger value is better."""


class EarlyStop(Model):
    """Asynchronous successive halving (ASHA): at each rung the worse trials are stopped, and others get their GPUs."""

    min_steps: Annotated[int, *whole(1, 1_000_000_000)]
    """Steps of the first rung, which every trial may make. Each further rung is `factor` times as far."""
    factor: Annotated[int, *whole(2, 16)] = 3
    """One trial in this many continues from a rung."""


class Ensemble(Model):
    """Several jobs with the same configuration and different seeds, as one trial."""

    members: Annotated[int, *whole(2, MAX_MEMBERS)]
    """Jobs of a trial. Each gets its own seed in `$(trial.seed)`."""
    combine: Combination = Combination.MEAN
    """How their metrics are combined into that of the trial."""


_KNOWN: Final = (
    "{text}.split('$(params.').size() - 1 + {text}.split('$(trial.').size() - 1"
    " == (has(self.parameters) ? self.parameters.map(p, {text}.split('$(params.' + p.name + ')').size() - 1).sum() : 0)"
    f" + {{text}}.split('{TRIAL_NUMBER}').size() - 1 + {{text}}.split('{TRIAL_SEED}').size() - 1"
)
"""Of a text: as many references begin in it as name something. Parameters end at their bracket, so that none is part of
another."""
_UNKNOWN: Final = (
    "refers to what is not there; write $(params.<name>) with the name of a parameter, $(trial.number) or $(trial.seed)"
)


def _texts_known(field: str) -> Rule:
    """Rule for a field that is a list of words."""
    return Rule(
        f"template.spec.runtime.{field}",
        f"!has(self.template.spec.runtime.{field})"
        f" || self.template.spec.runtime.{field}.all(one, {_KNOWN.format(text='one')})",
        _UNKNOWN,
        lambda it: all(references.is_known(word, it.parameters) for word in _words(it, field)),
        detail=lambda it: references.first_unknown(_words(it, field), it.parameters),
    )


def _words(spec: SweepSpec, field: str) -> tuple[str, ...]:
    words: tuple[str, ...] | None = getattr(spec.template.spec.runtime, field)
    return words or ()


def _grid_points(spec: SweepSpec) -> float:
    return math.prod(float(one.points) for one in spec.parameters)


_POINTS: Final = " * ".join(
    f"(!has(self.parameters) || self.parameters.size() <= {at} ? 1.0"
    f" : has(self.parameters[{at}].choices) ? double(self.parameters[{at}].choices.size())"
    f" : has(self.parameters[{at}].integer) ? double((self.parameters[{at}].integer.max"
    f" - self.parameters[{at}].integer.min) / self.parameters[{at}].integer.step + 1) : 1.0e9)"
    for at in range(MAX_PARAMETERS)
)


def _variables_differ(spec: SweepSpec) -> bool:
    own = [one.env for one in spec.parameters if one.env is not None]
    given = {one.name for one in spec.template.spec.runtime.env}
    return len(set(own)) == len(own) and given.isdisjoint(own)


class SweepSpec(Model):
    algorithm: Algorithm
    """Grid: all combinations. Random. TPE: near the best trials so far (tree of Parzen estimators). ASHA: Random with
    `earlyStop`. `earlyStop` can be used with each of the others too.
    """
    parameters: Annotated[tuple[Parameter, ...], Field(max_length=MAX_PARAMETERS), *keyed_by("name")] = ()
    """What differs between trials."""
    objective: Objective
    max_trials: Annotated[int, *whole(1, MAX_TRIALS)]
    """Trials in total, including failed ones. A grid with fewer points ends earlier."""
    parallelism: Annotated[int, *whole(1, MAX_PARALLELISM)] = 1
    """Trials at the same time. Each waits in its queue and counts against its quota, as any job does."""
    max_failed_trials: Annotated[int, *whole(0, MAX_TRIALS)] = 3
    """If more trials fail, the sweep fails and ends the running ones."""
    seed: Annotated[int, *whole(0, 2**31 - 1)] = 0
    """Seed of all random choices."""
    suspend: Bool = False
    """True: no further trial begins, and the jobs of running ones are suspended; false: they go on."""
    ttl_after_finished: Delay | None = None
    """The sweep is deleted this long after it has finished, with the TrainingJobs of its trials; checkpoints stay.
    Default: never.
    """
    early_stop: EarlyStop | None = None
    ensemble: Ensemble | None = None
    template: TrialTemplate

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "earlyStop",
            "self.algorithm != 'ASHA' || has(self.earlyStop)",
            "algorithm: ASHA is Random with earlyStop; write for example `spec.earlyStop: {minSteps: 100}`",
            lambda it: it.algorithm is not Algorithm.ASHA or it.early_stop is not None,
        ),
        Rule(
            "earlyStop",
            "!(has(self.earlyStop) && has(self.ensemble))",
            "the members of an ensemble do not reach a step together; leave out earlyStop or ensemble",
            lambda it: it.early_stop is None or it.ensemble is None,
        ),
        Rule(
            "parameters",
            "self.algorithm == 'Grid' || has(self.parameters) && self.parameters.size() > 0",
            "there is nothing to search: name at least one parameter, with its choices or its range",
            lambda it: it.algorithm is Algorithm.GRID or bool(it.parameters),
        ),
        Rule(
            "maxTrials",
            f"!has(self.parameters) || self.parameters.size() * self.maxTrials <= {MAX_VALUES}",
            f"maxTrials × parameters is more than {MAX_VALUES}, the most values that its status can hold; make several"
            " sweeps",
            lambda it: len(it.parameters) * it.max_trials <= MAX_VALUES,
        ),
        Rule(
            "parameters",
            f"self.algorithm != 'Grid' || {_POINTS} <= {MAX_TRIALS}.0",
            f"a grid has at most {MAX_TRIALS} points, each parameter with choices or a short range of whole numbers;"
            " leave some out, or take algorithm: TPE",
            lambda it: it.algorithm is not Algorithm.GRID or _grid_points(it) <= MAX_TRIALS,
        ),
        _texts_known("command"),
        _texts_known("args"),
        Rule(
            "template.spec.runtime.env",
            "!has(self.template.spec.runtime.env) || self.template.spec.runtime.env.all(one, !has(one.value)"
            f" || {_KNOWN.format(text='one.value')})",
            _UNKNOWN,
            lambda it: all(
                references.is_known(one.value, it.parameters)
                for one in it.template.spec.runtime.env
                if one.value is not None
            ),
            detail=lambda it: references.first_unknown(
                (one.value for one in it.template.spec.runtime.env), it.parameters
            ),
        ),
        Rule(
            "parameters",
            "!has(self.parameters) || self.parameters.all(p, has(p.env)"
            " || has(self.template.spec.runtime.command)"
            " && self.template.spec.runtime.command.exists(one, one.split('$(params.' + p.name + ')').size() > 1)"
            " || has(self.template.spec.runtime.args)"
            " && self.template.spec.runtime.args.exists(one, one.split('$(params.' + p.name + ')').size() > 1)"
            " || has(self.template.spec.runtime.env) && self.template.spec.runtime.env.exists(one, has(one.value)"
            " && one.value.split('$(params.' + p.name + ')').size() > 1))",
            "a parameter reaches the program nowhere: write $(params.<name>) in args or in the value of a variable, or"
            " give the parameter an `env`",
            lambda it: not references.unused(it.parameters, it.template.spec.runtime),
            detail=lambda it: (
                " and ".join(
                    it.parameters[at].name for at in references.unused(it.parameters, it.template.spec.runtime)
                )
                + " is not used"
            ),
        ),
        Rule(
            "parameters",
            "!has(self.parameters) || self.parameters.all(p, !has(p.env)"
            " || self.parameters.exists_one(q, has(q.env) && q.env == p.env)"
            " && !(has(self.template.spec.runtime.env)"
            " && self.template.spec.runtime.env.exists(one, one.name == p.env)))",
            "two of them set the same variable, or one that the template sets; give each an env of its own",
            _variables_differ,
        ),
    )

    @property
    def points(self) -> int:
        """Number of possible trials."""
        if self.algorithm is not Algorithm.GRID:
            return self.max_trials
        return min(self.max_trials, int(_grid_points(self)))

    @property
    def members(self) -> int:
        """Jobs of one trial."""
        return self.ensemble.members if self.ensemble is not None else 1


FREE_FIELDS: Final = ("suspend", "parallelism", "maxTrials", "maxFailedTrials", "ttlAfterFinished")
"""Fields of a spec that may change. All others define what earlier trials have tried."""
FIXED_FIELDS: Final = ("algorithm", "parameters", "objective", "seed", "earlyStop", "ensemble", "template")


def _same(field: str) -> str:
    return f"(has(self.spec.{field}) ? has(oldSelf.spec.{field}) && self.spec.{field} == oldSelf.spec.{field}" + (
        f" : !has(oldSelf.spec.{field}))"
    )


class Sweep(Model):
    """A TrainingJob that is run with many configurations, several at a time, to find the best by a metric."""

    api_version: ApiVersion
    kind: Literal["Sweep"]
    metadata: ObjectMeta
    spec: SweepSpec
    status: SweepStatus = SweepStatus()

    RULES: ClassVar[tuple[Rule, ...]] = (
        name_rule(
            NAME,
            "a sweep's name must start with a letter and have at most 40 lower-case letters, digits and '-': its jobs"
            " are named after it",
        ),
    )
    TRANSITIONS: ClassVar[tuple[TransitionRule, ...]] = (
        TransitionRule(
            "spec",
            " && ".join(_same(field) for field in FIXED_FIELDS),
            f"of a sweep only {', '.join(FREE_FIELDS)} may change: its trials have been chosen by all the rest; make a"
            " new sweep",
        ),
    )
