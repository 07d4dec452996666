"""Statuses of queues: which are worth a write, when they are written, and by whom."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import pytest

from cotenant.api.resources.queue_status import QueueStatus
from cotenant.api.resources.queues import Queue
from cotenant.controller.client.kube import QUEUES, UnreachableError
from cotenant.controller.reports.queues import queue_status_writer
from cotenant.controller.reports.queues.queue_status import NOBODY_THERE, status_of, worth_a_write
from tests.controller.execution.replica import Replica, simulate_time, submit, writes
from tests.support.api_faults import Fault

PATCH = "PATCH queues/red/status"


@pytest.mark.parametrize(
    ("change", "written", "worth"),
    [
        pytest.param({}, {}, False, id="nothing changed"),
        pytest.param({"used": "1"}, {}, True, id="usage changed"),
        pytest.param({"pastBorrowing": {"at": "later"}}, {"pastBorrowing": {}}, False, id="only time has passed"),
        pytest.param({"pastBorrowing": {"at": "now"}}, {"used": "1"}, True, id="it was never written"),
        pytest.param({"used": "1", "pastBorrowing": {}}, {"pastBorrowing": {}}, True, id="it goes along with others"),
    ],
)
def test_past_borrowing_costs_no_writes_of_its_own(change: Any, written: Any, worth: bool) -> None:
    assert worth_a_write(change, written) is worth


async def planned(workers: int = 3) -> Replica:
    """A replica that has just planned an admission."""
    replica = Replica()
    submit(replica.kube, workers=workers)
    await replica.run(0.5)
    del replica.kube.calls[:]
    return replica


async def write(replica: Replica, rounds: int = 1) -> None:
    for _ in range(rounds):
        with contextlib.suppress(UnreachableError):
            await replica.operator.queue_status_writer.write()
    replica.observe()


def used(replica: Replica) -> str | None:
    found = replica.kube.stored(QUEUES, "red")
    return found["status"].get("used") if found and "status" in found else None


@pytest.mark.looptime
async def test_what_changed_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_time(monkeypatch)
    replica = await planned()
    await write(replica, rounds=3)
    assert (used(replica), writes(replica.kube)) == ("3", [PATCH])


@pytest.mark.looptime
async def test_a_status_that_could_not_be_written_is_written_in_the_next_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    simulate_time(monkeypatch)
    replica = await planned()
    replica.kube.faults.add(Fault(call=PATCH, lost="request"))
    await write(replica)
    before = used(replica)
    await write(replica)
    assert (before, used(replica)) == (None, "3")


@pytest.mark.looptime
async def test_a_replica_that_leads_no_more_neither_writes_nor_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_time(monkeypatch)
    replica = await planned()
    replica.lose()
    await write(replica)
    replica.operator.leadership.changed(False)
    await write(replica, rounds=3)
    sample = replica.operator.metrics.registry.get_sample_value
    assert (used(replica), writes(replica.kube), sample("cotenant_leader")) == (None, [], 0.0)


@pytest.mark.looptime
async def test_a_replica_that_leads_no_more_shows_none_of_the_figures_that_the_next_leader_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    simulate_time(monkeypatch)
    replica = await planned()
    await write(replica)
    metrics = replica.operator.metrics
    before = shown_by_leaders(metrics.exposition().decode())
    replica.lose()
    replica.operator.leadership.changed(False)
    await write(replica)
    assert before >= {"cotenant_jobs", "cotenant_gpus_held", "cotenant_gpus_ready"}
    assert shown_by_leaders(metrics.exposition().decode()) == set()


def shown_by_leaders(text: str) -> set[str]:
    """Gauges of jobs, queues and GPUs that have a series."""
    return set(re.findall(r"^(cotenant_(?:jobs|jobs_pending|gpus_\w+|queue_\w+))(?:\{.*)? ", text, re.MULTILINE))


@pytest.mark.looptime
async def test_a_queue_whose_status_cannot_be_made_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_time(monkeypatch)
    replica = await planned()
    blue = {"apiVersion": "cotenant.dev/v1beta1", "kind": "Queue", "metadata": {"name": "blue"}, "spec": {}}
    replica.kube.put(QUEUES, blue)
    await replica.run(0.5)
    real = status_of

    def fail_for_blue(queue: Queue, *rest: Any) -> QueueStatus:
        if queue.metadata.name == "blue":
            raise ZeroDivisionError
        return real(queue, *rest)

    monkeypatch.setattr(queue_status_writer, "status_of", fail_for_blue)
    await write(replica)
    contained = replica.operator.metrics.registry.get_sample_value(
        "cotenant_failures_contained_total", {"stage": queue_status_writer.STAGE}
    )
    assert (used(replica), contained) == ("3", 1.0)


@pytest.mark.looptime
async def test_a_queue_that_cannot_be_read_says_so_once_and_no_more_when_it_is_mended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    simulate_time(monkeypatch)
    replica = await planned()
    green = {"apiVersion": "cotenant.dev/v1beta1", "kind": "Queue", "metadata": {"name": "green"}}
    replica.kube.put(QUEUES, green | {"spec": {"quotas": [{"guaranteed": "many"}]}})
    await replica.run(0.5)
    await write(replica, rounds=3)
    broken = conditions(replica, "green")
    mended = replica.kube.stored(QUEUES, "green") or {}
    replica.kube.put(QUEUES, mended | {"spec": {"quotas": [{"guaranteed": 1}]}})
    await replica.run(0.5)
    await write(replica)
    assert writes(replica.kube).count("PATCH queues/green/status") == 2
    assert broken == [
        (
            "False",
            "Unreadable",
            "the queue grants nothing, because it cannot be read: Queue green: spec.quotas[0].guaranteed: must be a "
            'number of GPUs from 0 to 1000000, such as 2 or "0.5", with at most three decimals; '
            "'many' is not well formed",
        )
    ]
    assert conditions(replica, "green") == [("True", "Ready", "the queue takes jobs")]


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param({"namespaces": ["red", "gone"]}, "the queue takes jobs", id="one of two namespaces is there"),
        pytest.param({"namespaces": ["gone"]}, NOBODY_THERE, id="its namespace was deleted"),
        pytest.param(
            {"namespaceSelector": {"matchLabels": {"team": "gone"}}}, NOBODY_THERE, id="its selector matches nothing"
        ),
        pytest.param({}, "the queue takes jobs", id="it groups other queues"),
    ],
)
async def test_a_queue_says_that_there_is_no_namespace_that_it_serves(
    monkeypatch: pytest.MonkeyPatch, spec: dict[str, Any], message: str
) -> None:
    simulate_time(monkeypatch)
    replica = await planned()
    blue = {"apiVersion": "cotenant.dev/v1beta1", "kind": "Queue", "metadata": {"name": "blue"}, "spec": spec}
    replica.kube.put(QUEUES, blue)
    await replica.run(0.5)
    await write(replica)
    assert conditions(replica, "blue") == [("True", "Ready", message)]


def conditions(replica: Replica, queue: str) -> list[tuple[str, str, str]]:
    """Status, reason and message of each."""
    found = replica.kube.stored(QUEUES, queue) or {}
    return [(one["status"], one["reason"], one["message"]) for one in found["status"]["conditions"]]
