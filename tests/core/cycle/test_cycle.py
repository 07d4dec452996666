"""Material of one cycle: what it opens with, and where an admission, a nomination and a move are noted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.cycle.search import PlacementResult, find
from cotenant.core.explain.inadmissible import RequestResolver
from cotenant.core.model.objects import Job
from cotenant.core.model.plan import Admit, Reason, Refusal
from cotenant.core.placement import BestFit
from cotenant.core.policy import Policy
from cotenant.core.snapshot.accounting import Accounting
from cotenant.core.snapshot.snapshot import Snapshot
from tests.core.worlds.held_amounts import same_ledger, same_usage
from tests.support.clusters import make_job, make_node, make_placement, make_queue, make_snapshot

RUNNING = make_job("running", placement=make_placement(("n1", [[0]])))
WAITING, OTHER = make_job("waiting"), make_job("other", at=1.0)
WAITS = Refusal(reason=Reason.WAITING_FOR_EVICTION, message="waits")


def snapshot(*, evicting: bool = False) -> Snapshot:
    jobs = [WAITING, replace(RUNNING, evicting=evicting), OTHER]
    return make_snapshot(nodes=[make_node("n1", gpus=2)], queues=[make_queue("red", guaranteed=2)], jobs=jobs)


def free(occupancy: Occupancy | None) -> list[int] | None:
    return None if occupancy is None else occupancy.ledger.free_compute[0].tolist()


def placed(cycle: Cycle, job: Job, occupancy: Occupancy) -> PlacementResult:
    resolved = RequestResolver(cycle.inventory, cycle.tree).resolve(job)
    assert not isinstance(resolved, Refusal)
    result = find(occupancy, resolved, 1)
    assert result is not None
    return result


def test_a_cycle_opens_with_an_entry_per_pending_job_and_what_the_others_hold() -> None:
    cycle = Cycle.open(snapshot(), Policy())

    assert [entry.job for entry in cycle.entries] == [WAITING, OTHER]
    assert dict(cycle.running.by_key) == {"red/running": RUNNING}
    assert free(cycle.accounts.current) == [0, 1_000]
    assert cycle.accounts.after_evictions is None
    assert (cycle.moment.at, cycle.started) == (1_000.0, [])


def test_a_cycle_writes_nothing_into_the_accounting_that_its_snapshot_carries() -> None:
    taken = snapshot()
    carried = Accounting.of(taken.nodes, taken.queues, taken.jobs)
    cycle = Cycle.open(replace(taken, accounting=carried), Policy())
    cycle.admit(cycle.entries[0], placed(cycle, WAITING, cycle.accounts.current))

    again = Accounting.of(taken.nodes, taken.queues, taken.jobs)
    assert cycle.inventory is carried.inventory
    assert same_ledger(carried.ledger, again.ledger)
    assert same_usage(carried.usage, again.usage)


@pytest.mark.parametrize("gpus", [0, 1])
def test_without_gpus_there_is_nothing_to_learn_and_best_fit_serves(gpus: int) -> None:
    empty = make_snapshot(nodes=[make_node("n1", gpus=gpus)], queues=[], jobs=[])

    assert isinstance(Cycle.open(empty, Policy()).accounts.current.fit_cache.scorer, BestFit) is (gpus == 0)


def test_an_admission_takes_its_place_and_is_noted_as_started() -> None:
    cycle = Cycle.open(snapshot(), Policy())
    result = placed(cycle, WAITING, cycle.accounts.current)
    cycle.admit(cycle.entries[0], result)

    assert free(cycle.accounts.current) == [0, 0]
    assert cycle.started == [(WAITING, result.allocation)]
    assert cycle.outcome.plan(cycle.entries).actions == (
        Admit(job="red/waiting", placement=make_placement(("n1", [[1]]))),
    )
    assert cycle.outcome.plan(cycle.entries).nominations == {}


def test_a_nomination_takes_its_place_in_both_occupancies_and_starts_nothing() -> None:
    cycle = Cycle.open(snapshot(evicting=True), Policy())
    cycle.admit(cycle.entries[0], placed(cycle, WAITING, cycle.accounts.current))
    after = cycle.accounts.after_evictions
    assert after is not None
    cycle.nominate(cycle.entries[1], placed(cycle, OTHER, after), WAITS)

    assert free(cycle.accounts.current) == [-1_000, 0]
    assert free(cycle.accounts.after_evictions) == [0, 0]
    assert [job.key for job, _ in cycle.started] == ["red/waiting"]
    assert cycle.outcome.plan(cycle.entries).nominations == {"red/other": make_placement(("n1", [[0]]))}
    assert cycle.outcome.plan(cycle.entries).verdicts == {"red/other": WAITS.verdict("red/other")}


def test_a_move_holds_the_new_place_of_the_job() -> None:
    cycle = Cycle.open(snapshot(evicting=True), Policy())
    cycle.nominate_move(RUNNING, placed(cycle, WAITING, cycle.accounts.current))

    assert free(cycle.accounts.current) == [0, 0]
    assert free(cycle.accounts.after_evictions) == [1_000, 0]
    assert cycle.outcome.plan(cycle.entries).nominations == {"red/running": make_placement(("n1", [[1]]))}
