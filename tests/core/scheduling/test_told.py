"""Latest starts and advice follow from what the turns left: without them the same is decided."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.core.explain.spec_changes import SpecChange
from cotenant.core.model.objects import Job, Node, TenantQueue
from cotenant.core.model.plan import Plan, Reason, StartBound, Verdict
from cotenant.core.policy import Policy
from cotenant.core.scheduling.advice import Told, tell
from cotenant.core.scheduling.known import open_cycle
from cotenant.core.scheduling.scheduler import place, schedule, take_turns
from tests.core.worlds.held_amounts import same_ledger, same_usage
from tests.core.worlds.test_properties import clusters
from tests.support.clusters import ToyCluster, make_job, make_node, make_queue, make_snapshot

WAITS = Verdict(job="red/a", reason=Reason.WAITING_FOR_GPUS, message="waits")
RED, JOBS = make_queue("red", guaranteed=2), [make_job(name) for name in ("a", "b", "c")]
EARLY = Policy(collect_after_s=60)
"""Some jobs wait so long that GPUs are reserved for them."""


def untold(plan: Plan) -> Plan:
    verdicts = {
        key: replace(one, starts_by=None, starts_by_basis="", would_start_if="", change=())
        for key, one in plan.verdicts.items()
    }
    return replace(plan, verdicts=verdicts)


@given(clusters(), st.integers(0, 3), st.sampled_from((Policy(), EARLY)))
def test_a_decision_without_advice_gives_the_same_places(
    world: tuple[list[Node], list[TenantQueue], list[Job]], cycles: int, policy: Policy
) -> None:
    toy = ToyCluster(*world, policy=policy)
    for _ in range(cycles):
        toy.cycle()
        toy.finish_evictions()
        toy.now += 100.0

    assert place(toy.snapshot(), policy) == untold(schedule(toy.snapshot(), policy))


def test_advice_changes_no_account_and_is_the_same_when_asked_again() -> None:
    """GPUs are reserved for the gang; the small job would start if it were sure to end in time, or asked for less."""
    runs = [make_job(name, at=0.0, max_runtime_s=3_000) for name in ("one", "two")]
    toy = ToyCluster([make_node("n1", gpus=2)], [RED], runs, policy=EARLY)
    toy.cycle()
    toy.observe(make_job("gang", at=1.0, workers=2, max_runtime_s=3_000))
    toy.end("red/one")
    toy.observe(make_job("small", at=2.0))
    toy.now = 500.0
    cycle, requests = open_cycle(toy.snapshot(), EARLY, None)
    turns = take_turns(cycle, requests)
    current = cycle.accounts.current
    ledger, usage = current.ledger.copy(), current.usage.copy()

    told, again = tell(turns), tell(turns)

    assert turns.admission.collections.keys() == {"red/gang"}
    assert (told.bounds, told.changes) == (again.bounds, again.changes)
    assert told.changes.keys() == {"red/gang", "red/small"}
    assert same_ledger(current.ledger, ledger)
    assert same_usage(current.usage, usage)


@pytest.mark.parametrize(
    ("told", "want"),
    [
        pytest.param(Told(), WAITS, id="nothing"),
        pytest.param(Told(bounds={"red/b": StartBound(7.0)}), WAITS, id="what is told to another"),
        pytest.param(Told(bounds={"red/a": StartBound(7.0)}), replace(WAITS, starts_by=7.0), id="a bound"),
        pytest.param(
            Told(bounds={"red/a": StartBound(basis="why")}),
            replace(WAITS, starts_by_basis="why"),
            id="why there is none",
        ),
        pytest.param(
            Told(changes={"red/a": SpecChange("less", JOBS[0], (("spec.workers", 1),))}),
            replace(WAITS, would_start_if="less", change=(("spec.workers", "1"),)),
            id="a change",
        ),
    ],
)
def test_a_verdict_has_the_latest_start_and_the_advice_of_its_job(told: Told, want: Verdict) -> None:
    assert told.added_to(Plan(verdicts={"red/a": WAITS})) == Plan(verdicts={"red/a": want})


def test_only_advice_that_names_the_remaining_time_has_an_end() -> None:
    cycle, _ = open_cycle(make_snapshot(nodes=[make_node("n1")], queues=[RED], jobs=JOBS), Policy(), None)
    in_time = SpecChange("it ended in time", JOBS[1], ends_by=60.0)
    told = Told(changes={"red/a": SpecChange("less", JOBS[0]), "red/b": in_time})

    assert [(job.key, at) for job, at in told.ends(cycle.entries)] == [("red/b", 60.0)]
