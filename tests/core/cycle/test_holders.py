"""The table of running jobs: brought up to date, it is the table that would be made."""

from __future__ import annotations

from dataclasses import fields, replace
from math import inf
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cotenant.core.cycle.holders import HolderTable
from cotenant.core.cycle.running_jobs import RunningJobs
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.model.objects import Job
from cotenant.core.snapshot.accounting import Accounting, AccountingCache
from tests.support.clusters import make_job, make_node, make_placement, make_queue

NODES = (make_node("n1", gpus=8), make_node("n2", gpus=8))
QUEUES = (make_queue("red"), make_queue("blue"))


def running_of(counted: Accounting, before: RunningJobs | None = None) -> RunningJobs:
    return RunningJobs(counted.running, counted.allocations, counted.tree, before=before)


@st.composite
def happenings(draw: st.DrawFn) -> tuple[int, str, dict[str, Any] | None]:
    """(slot, change of the job that is there); None: it ends."""
    slot = draw(st.integers(0, 15))
    if draw(st.integers(0, 3)) == 0:
        return slot, "ends", None
    return (
        slot,
        draw(st.sampled_from(("a", "b", "c"))),
        {
            "queue": draw(st.sampled_from(("red", "blue", "gone"))),
            "user": draw(st.sampled_from(("ann", "bob"))),
            "preemptible": draw(st.booleans()),
            "expected_runtime_s": draw(st.sampled_from((None, 50))),
            "max_runtime_s": draw(st.sampled_from((None, 60))),
            "evicting": draw(st.booleans()),
            "last_checkpoint_at": draw(st.sampled_from((None, 7.0))),
        },
    )


def as_text(table: HolderTable) -> list[object]:
    """Comparable: kinds by what they are and not by their numbers, and what the batch does to a ledger."""
    ledger = Ledger.of(NODES)
    table.batch.apply(ledger, 0, len(table.batch), 1)
    plain = {one.name: getattr(table, one.name) for one in fields(table) if one.name not in ("kind", "kinds", "batch")}
    kinds = [table.kinds[number] for number in table.kind.tolist()]
    each = [Ledger.of(NODES) for _ in table.keys]
    for row, one in enumerate(each):
        table.batch.apply(one, row, row + 1, 1)
    charges = [table.batch.charges(row, row + 1) for row in range(len(table.keys))]
    columns = {name: value.tolist() if isinstance(value, np.ndarray) else list(value) for name, value in plain.items()}
    return [repr(columns), kinds, ledger.packed.tolist(), [one.packed.tolist() for one in each], charges]


@given(st.lists(st.lists(happenings(), max_size=5), min_size=1, max_size=5))
def test_an_updated_table_equals_a_new_one(story: list[list[Any]]) -> None:
    cache, before = AccountingCache(), None
    jobs: dict[int, Job] = {}
    cache.accounting(NODES, QUEUES, ())
    for cycle in story:
        for slot, name, changes in cycle:
            old = jobs.pop(slot, None)
            if old is not None:
                cache.update_job(None, old)
            if changes is not None:
                job = job_at(slot, name, **changes)
                jobs[slot] = job
                cache.update_job(job, None)
        counted = cache.accounting(NODES, QUEUES, jobs.values())
        before = running_of(counted, before)
        assert as_text(before.holders) == as_text(running_of(counted).holders)


def job_at(slot: int, name: str, **changes: Any) -> Job:
    place = make_placement((f"n{1 + slot // 8}", [[slot % 8]]))
    return replace(make_job(f"{name}{slot}", placement=place, **changes), admitted_at=float(slot))


def test_unchanged_jobs_keep_their_table() -> None:
    counted = Accounting.of(NODES, QUEUES, [job_at(0, "a"), job_at(1, "b")])
    running = running_of(counted)
    table = running.holders

    assert running.holders is table
    assert running_of(replace(counted), running).holders is table


def test_a_job_stays_unless_it_is_leaving_or_being_resized_or_asked_to_leave() -> None:
    jobs = [job_at(0, "a"), job_at(1, "b", evicting=True), job_at(2, "c"), job_at(3, "d")]
    jobs[2] = replace(jobs[2], resizing_from=jobs[2].placement)
    table = running_of(Accounting.of(NODES, QUEUES, jobs)).holders

    assert table.keys == ["red/a0", "red/b1", "red/c2", "red/d3"]
    assert table.staying([]).tolist() == [0, 3]
    assert table.staying(["red/a0", "red/nobody", "red/z"]).tolist() == [3]


def test_a_job_beside_one_that_is_asked_to_leave_stays() -> None:
    table = running_of(Accounting.of(NODES, QUEUES, [job_at(slot, "abcd"[slot]) for slot in range(4)])).holders

    stays = {key: table.staying([key]).tolist() for key in table.keys}
    assert stays == {"red/a0": [1, 2, 3], "red/b1": [0, 2, 3], "red/c2": [0, 1, 3], "red/d3": [0, 1, 2]}


def test_missing_times_of_a_job_are_infinite_or_not_yet_known() -> None:
    said = job_at(0, "a", expected_runtime_s=50, max_runtime_s=60, backfilled_until=7.0)
    silent = replace(job_at(1, "b", preemptible=False), admitted_at=None)
    table = running_of(Accounting.of(NODES, QUEUES, [said, silent])).holders

    assert (table.expected_s.tolist(), table.longest_s.tolist()) == ([50.0, inf], [60.0, inf])
    assert table.backfilled_until.tolist() == [7.0, inf]
    assert (table.begun[0], bool(np.isnan(table.begun[1]))) == (0.0, True)
    assert [table.kinds[number] for number in table.kind] == [("red", True), ("red", False)]
