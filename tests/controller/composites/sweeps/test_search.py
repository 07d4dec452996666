"""What Optuna is asked, and that an answer depends on nothing but the document."""

from __future__ import annotations

import math
from typing import Any

import pytest

from cotenant.api.resources.sweeps.sweep import SweepSpec
from cotenant.api.resources.sweeps.sweep_status import MAX_RUNGS, Rung, TrialPhase, TrialStatus
from cotenant.controller.composites.sweeps.search import RungVerdict, Study, next_rung, trial_seed
from tests.controller.composites.sweeps.played_sweep import sweep_document, sweep_of

NUMBER = {"name": "x", "env": "X", "number": {"min": -1, "max": 1}}
WHOLE = {"name": "n", "env": "N", "integer": {"min": 2, "max": 9, "step": 3}}
CHOICE = {"name": "c", "env": "C", "choices": ["adam", "0.50"]}


def spec_of(algorithm: str = "Random", *parameters: dict[str, Any], **more: Any) -> SweepSpec:
    template = {"spec": {"queue": "red", "gpu": {"count": 1}, "runtime": {"entrypoint": "train:main"}}}
    given = {"algorithm": algorithm, "parameters": list(parameters), "maxTrials": 100, "template": template, **more}
    return sweep_of(sweep_document(**given)).spec


def tried(spec: SweepSpec, count: int) -> dict[int, TrialStatus]:
    """Trials one after another, the better the nearer x is to 0.3."""
    trials: dict[int, TrialStatus] = {}
    for number in range(count):
        values = Study(spec, trials).suggest()
        value = abs(float(values["x"]) - 0.3)
        trials[number] = TrialStatus(parameters=values, phase=TrialPhase.SUCCEEDED, value=value)
    return trials


@pytest.mark.parametrize("algorithm", ["Random", "TPE"])
def test_the_same_document_gives_the_same_answer_and_another_seed_another(algorithm: str) -> None:
    once, again = (tried(spec_of(algorithm, NUMBER, WHOLE, CHOICE), 15) for _ in range(2))
    other = tried(spec_of(algorithm, NUMBER, WHOLE, CHOICE, seed=1), 15)
    assert once == again
    assert {one.parameters["x"] for one in once.values()}.isdisjoint(one.parameters["x"] for one in other.values())


@pytest.mark.parametrize(
    ("algorithm", "parameters", "before"),
    [("Random", (NUMBER, WHOLE, CHOICE), 3), ("TPE", (NUMBER, WHOLE, CHOICE), 14), ("Grid", (WHOLE, CHOICE), 0)],
)
def test_trials_that_are_asked_for_at_once_are_those_that_are_asked_for_one_after_another(
    algorithm: str, parameters: tuple[dict[str, Any], ...], before: int
) -> None:
    spec, known = spec_of(algorithm, *parameters), tried(spec_of("Random", NUMBER, WHOLE, CHOICE), before)
    at_once, trials = Study(spec, known), dict(known)
    for number in range(len(known), len(known) + 6):
        trials[number] = TrialStatus(parameters=Study(spec, trials).suggest())
        assert at_once.suggest() == trials[number].parameters


def test_values_are_within_their_ranges_and_written_as_they_are_read() -> None:
    for trial in tried(spec_of("Random", NUMBER, WHOLE, CHOICE), 30).values():
        assert -1 <= float(trial.parameters["x"]) <= 1
        assert trial.parameters["x"] == repr(float(trial.parameters["x"]))
        assert trial.parameters["n"] in {"2", "5", "8"}
        assert trial.parameters["c"] in {"adam", "0.50"}


def test_a_grid_has_each_of_its_points_once() -> None:
    spec = spec_of("Grid", WHOLE, CHOICE)
    trials: dict[int, TrialStatus] = {}
    for number in range(spec.points):
        phase = (TrialPhase.RUNNING, TrialPhase.FAILED, TrialPhase.STOPPED)[number % 3]
        trials[number] = TrialStatus(parameters=Study(spec, trials).suggest(), phase=phase)
    assert spec.points == 6
    assert len({(one.parameters["n"], one.parameters["c"]) for one in trials.values()}) == 6


def test_tpe_comes_nearer_than_chance() -> None:
    def last(algorithm: str) -> float:
        values = [one.value or 0.0 for one in tried(spec_of(algorithm, NUMBER), 40).values()]
        return sum(values[20:]) / 20

    assert last("TPE") < last("Random") / 2


def test_trials_that_run_are_counted_with() -> None:
    spec = spec_of("TPE", NUMBER)
    trials = tried(spec, 12)
    trials[12] = TrialStatus(parameters=Study(spec, trials).suggest(), phase=TrialPhase.RUNNING)
    trials[13] = TrialStatus(
        parameters=trials[12].parameters, phase=TrialPhase.STOPPED, rungs=(Rung(step=9, value=0.1),)
    )
    trials[14] = TrialStatus(parameters=trials[12].parameters, phase=TrialPhase.FAILED)
    assert Study(spec, trials).suggest() != trials[12].parameters


def test_no_two_trials_or_members_have_the_same_seed() -> None:
    seeds = {trial_seed(7, number, member) for number in range(500) for member in range(16)}
    assert len(seeds) == 500 * 16
    assert all(0 <= seed < 2**31 for seed in seeds)


def rungs(*values: float) -> tuple[Rung, ...]:
    return tuple(Rung(step=10 * 3**index, value=value) for index, value in enumerate(values))


HALVED = {"earlyStop": {"minSteps": 10}}


@pytest.mark.parametrize(
    ("others", "mine", "step", "value", "verdict"),
    [
        pytest.param([], (), 10, 5.0, RungVerdict(1, False), id="the first goes on"),
        pytest.param([(4.0,), (6.0,)], (), 10, 5.0, RungVerdict(1, True), id="one in three goes on"),
        pytest.param([(5.5,), (6.0,)], (), 11, 5.0, RungVerdict(1, False), id="the best goes on"),
        pytest.param([(1.0,)] * 5, (), 10, 1.0, RungVerdict(1, False), id="equals go on"),
        pytest.param([(5.0, 4.0)], (6.0,), 29, 9.0, RungVerdict(1, False), id="between two rungs nothing happens"),
        pytest.param([(5.0, 4.0)], (6.0,), 30, 9.0, RungVerdict(2, True), id="at the next it is compared again"),
        pytest.param([], (), 100, 1.0, RungVerdict(3, False), id="over several rungs at once"),
        pytest.param([], (), 10, math.nan, RungVerdict(1, True), id="what is no number ends"),
        pytest.param([(1.0,)], (), 10, -math.inf, RungVerdict(1, True), id="however little it is"),
    ],
)
def test_of_a_rung_one_in_so_many_goes_on(
    others: list[tuple[float, ...]], mine: tuple[float, ...], step: int, value: float, verdict: RungVerdict
) -> None:
    spec = spec_of("Random", NUMBER, **HALVED)
    rules = spec.early_stop
    assert rules is not None
    trials = {
        number: TrialStatus(parameters={"x": "0.5"}, phase=TrialPhase.RUNNING, rungs=rungs(*values))
        for number, values in enumerate([*others, mine])
    }
    assert Study(spec, trials).judge(rules, len(others), step=step, value=value) == verdict


def test_trials_that_are_judged_at_once_are_judged_as_one_after_another() -> None:
    spec = spec_of("Random", NUMBER, **HALVED)
    rules = spec.early_stop
    assert rules is not None
    waiting = TrialStatus(parameters={"x": "0.5"}, phase=TrialPhase.RUNNING)
    trials = dict.fromkeys(range(7), waiting)
    at_once, stopped = Study(spec, trials), []
    for number, value in enumerate([5.0, 3.0, 4.0, 9.0, 1.0, 2.0, 0.5]):
        verdict = Study(spec, trials).judge(rules, number, step=10, value=value)
        assert at_once.judge(rules, number, step=10, value=value) == verdict
        trials[number] = waiting.model_copy(update={"rungs": rungs(value)})
        stopped.append(verdict.stop)
    assert stopped == [False, False, True, True, False, False, False]


def test_more_is_better_where_the_goal_says_so() -> None:
    spec = spec_of("Random", NUMBER, **HALVED, objective={"metric": "acc", "goal": "Maximize"})
    rules = spec.early_stop
    assert rules is not None
    trials = {
        0: TrialStatus(parameters={"x": "0.5"}, rungs=rungs(0.9)),
        1: TrialStatus(parameters={"x": "0.5"}),
    }
    assert [Study(spec, trials).judge(rules, 1, step=10, value=value).stop for value in (0.8, 0.95)] == [True, False]


def test_each_rung_is_a_factor_further_until_the_last() -> None:
    rules = spec_of("Random", NUMBER, **HALVED).early_stop
    assert rules is not None
    found = [next_rung(rules, TrialStatus(rungs=rungs(*[1.0] * count))) for count in (0, 1, 2, MAX_RUNGS)]
    assert found == [10, 30, 90, None]
