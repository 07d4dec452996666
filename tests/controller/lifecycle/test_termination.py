"""How a job leaves its GPUs. Pure: no cluster, no clock."""

from __future__ import annotations

import pytest

from cotenant import contract
from cotenant.controller.lifecycle import progress
from cotenant.controller.lifecycle.reconcile import reconcile
from cotenant.core.model.lifecycle import Phase
from tests.controller.builders import T0, admitted, exited, observed, pod
from tests.controller.lifecycle.reconcile_cases import ONE, SETTINGS, TWO, Case, check, check_written_once

LEAVING = [
    Case(
        "the pods of a job that must leave are ended, each once",
        observed(admitted(Phase.EVICTING, *TWO), pod(0, ready=True), pod(1, deleting=True)),
        delete=("train-1-0",),
    ),
    Case(
        "it waits again when the last one is gone",
        observed(admitted(Phase.EVICTING, *TWO)),
        phase=Phase.PENDING, reason="Preempted", says="for a/b", holds=False,
    ),
    Case(
        "a job that was suspended ends up suspended",
        observed(admitted(Phase.EVICTING, *ONE), spec={"suspend": True}),
        phase=Phase.SUSPENDED, reason="Suspended", holds=False,
    ),
    Case(
        "a job that finished while it was asked to leave has succeeded",
        observed(admitted(Phase.EVICTING, *ONE), pod(end=exited(0, results={"loss": 0.1}))),
        phase=Phase.SUCCEEDED, reason="Completed", holds=False,
    ),
    Case(
        "pods on a dead node are given their time",
        observed(admitted(Phase.EVICTING, *ONE), pod(deleting=True), unreachable_nodes={"n1": T0}),
        again=T0 + 50 + 30 + 60,
    ),
    Case(
        "and then are not waited for",
        observed(admitted(Phase.EVICTING, *ONE), pod(deleting=True), unreachable_nodes={"n1": T0}, now=T0 + 140),
        phase=Phase.PENDING, reason="Preempted", holds=False,
    ),
    Case(
        "pods on a living node are always waited for",
        observed(admitted(Phase.EVICTING, *ONE), pod(deleting=True), now=T0 + 9999),
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", LEAVING, ids=lambda case: case.name)
def test_a_job_that_leaves(case: Case) -> None:
    check(case)
    check_written_once(case)


def test_the_results_of_rank_0_become_those_of_the_job() -> None:
    ended = (pod(0, end=exited(0, results={"accuracy": 0.97})), pod(1, end=exited(0, results={"accuracy": 0.1})))
    step = reconcile(observed(admitted(Phase.RUNNING, *TWO), *ended), SETTINGS)
    assert step.status is not None
    assert (step.status.results, step.status.usage.gpu_seconds if step.status.usage else 0) == ({"accuracy": 0.97}, 80)


@pytest.mark.parametrize(
    ("code", "told", "want"),
    [
        (0, {"step": 400, "of": 400}, ("400/400 (100 %)", 400, 100, "done")),
        (0, {"step": 300, "of": 400}, ("300/400 (75 %)", 300, 75, "done")),
        (1, {"step": 290, "of": 400}, ("290/400 (72 %)", 290, 72, "done")),
        (0, {"step": 500}, ("500", 500, None, "done")),
        (0, {}, ("268/400 (67 %)", 268, 67, "training")),
    ],
    ids=["all of it", "it stopped early", "it failed", "a total was never named", "it said nothing of its steps"],
)
def test_the_last_progress_is_what_rank_0_left_behind_not_what_it_answered_last(
    code: int, told: dict[str, int], want: tuple[str, int, int | None, str]
) -> None:
    polled = progress.summary(contract.Progress(state="training", step=268, of=400, metrics={"loss": 0.2}))
    status = admitted(Phase.RUNNING, *ONE, progress=polled)
    ended = pod(end=exited(code, node_rank=0, **told))
    step = reconcile(observed(status, ended, spec={"retries": 0}), SETTINGS)
    assert step.status is not None
    written = step.status.progress
    assert written is not None
    assert (written.summary, written.step, written.percent, written.state) == want
    assert written.metrics == {"loss": 0.2}
