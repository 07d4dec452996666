"""Policies side by side, as lines and as values."""

from __future__ import annotations

import json

import pytest

from cotenant.core.model.objects import Quota, TenantQueue
from cotenant.simulator.comparison import Played, aligned, as_values, by_queue, owed_milli_s, queue_table, table
from cotenant.simulator.job_run import Held
from cotenant.simulator.outcomes import ReplayedJob
from tests.simulator.test_outcomes import FIRST, SECOND, THIRD

RED = TenantQueue(name="red", quotas=(Quota(guaranteed=1000),))
IDLE = TenantQueue(name="idle", quotas=(Quota(guaranteed=1000),))
PLAYED = [Played("Age", [FIRST, SECOND, THIRD]), Played("SRSF", [FIRST, SECOND], is_yardstick=True)]


def test_the_table_has_a_line_for_each_policy() -> None:
    title, age, srsf = table(PLAYED, 1)
    assert title.split()[:3] == ["policy", "ended", "JCT"]
    assert age.startswith("Age     3 of 3")
    assert srsf.startswith("SRSF    2 of 2")
    assert len(title) == len(age) == len(srsf)


def test_queues_are_shown_if_the_policy_knows_queues_and_they_have_jobs() -> None:
    (only,) = by_queue(PLAYED, [IDLE, RED])
    assert (only.queue, only.policy, only.jobs, only.guaranteed_gpus, only.evictions) == ("red", "Age", 3, 1, 2)
    assert len(queue_table(PLAYED, [IDLE, RED])) == 2


@pytest.mark.parametrize(("guaranteed", "owed_s"), [(0, 0), (1000, 0), (2000, 3600), (3000, 3600)])
def test_a_queue_is_owed_what_it_asked_for_within_its_guarantee_and_did_not_get(guaranteed: int, owed_s: int) -> None:
    # For the first hour two GPUs are asked for and one is held.
    assert owed_milli_s([FIRST, SECOND, THIRD], guaranteed) == pytest.approx(owed_s * 1000)


def test_a_job_that_runs_in_parts_is_owed_the_time_between_them() -> None:
    job = ReplayedJob(
        name="a",
        queue="red",
        milli=2000,
        submitted_at=0,
        duration_s=20,
        first_start=5,
        end=40,
        held=(Held(5, 15, 2000), Held(30, 40, 2000)),
    )
    assert owed_milli_s([job], 1000) == pytest.approx(20 * 1000)


def test_values_are_json_with_the_evictions_of_every_job() -> None:
    values = as_values(PLAYED, [RED], 1)
    assert json.loads(json.dumps(values))["evictions"] == {"Age": {"c": 2}, "SRSF": {}}


def test_columns_stand_under_each_other() -> None:
    assert aligned([["a", "bb"], ["ccc", "d"]]) == ["a    bb", "ccc   d"]
