"""Budgets, taints and others: small parts with edges of their own. Pure, with simulated loop time."""

from __future__ import annotations

import asyncio
import itertools
from datetime import UTC, datetime
from typing import Any

import pytest

from cotenant.api.resources.queues import Period, Queue
from cotenant.controller.client.kube import PODS, Document, Resource
from cotenant.controller.cluster.budgets import Budgets, end_of, start_of
from cotenant.controller.cluster.taints import untolerated_taint
from cotenant.controller.informers.disruption import disruption_of
from cotenant.controller.informers.kopf_feed import EventBridge, build_settings
from cotenant.controller.reports.queue_status_writer import worth_a_write


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("period", "now", "start", "end"),
    [
        (Period.DAY, "2026-11-21T15:00", "2026-11-21T00:00", "2026-11-22T00:00"),
        (Period.WEEK, "2026-11-21T15:00", "2026-11-16T00:00", "2026-11-23T00:00"),
        (Period.WEEK, "2026-11-16T00:00", "2026-11-16T00:00", "2026-11-23T00:00"),
        (Period.MONTH, "2026-12-31T23:59", "2026-12-01T00:00", "2027-01-01T00:00"),
        (Period.MONTH, "2028-02-29T12:00", "2028-02-01T00:00", "2028-03-01T00:00"),
    ],
    ids=str,
)
def test_periods_begin_at_midnight_utc(period: Period, now: str, start: str, end: str) -> None:
    begun = start_of(period, moment(now))
    assert (begun, end_of(period, begun)) == (moment(start), moment(end))


def queue(status: dict[str, Any] | None = None) -> Queue:
    return Queue.model_validate(
        {
            "apiVersion": "cotenant.dev/v1alpha1",
            "kind": "Queue",
            "metadata": {"name": "red"},
            "spec": {"budget": {"gpuHours": 2, "period": "Day"}},
            "status": status or {},
        }
    )


def test_a_budget_is_charged_for_what_is_held_and_starts_anew_with_the_period() -> None:
    budgets, noon = Budgets(), moment("2026-11-21T12:00").timestamp()
    spent = []
    for after, held in ((0, 1500), (1800, 1500), (3600, 0), (50_000, 0)):
        budgets.charge({"red": queue()}, {"red": held}, noon + after)
        usage = budgets.usage(queue(), noon + after)
        spent.append((usage.spent, usage.left) if usage else None)
    assert spent == [("0", "2"), ("0.75", "1.25"), ("0.75", "1.25"), ("0", "2")]


def test_a_restart_takes_the_account_up_where_it_was_written() -> None:
    noon = moment("2026-11-21T12:00").timestamp()
    written = {"budget": {"spentMilliGPUSeconds": 3_600_000, "periodStart": "2026-11-21T00:00:00Z"}}
    stale = {"budget": {"spentMilliGPUSeconds": 3_600_000, "periodStart": "2026-11-20T00:00:00Z"}}
    spent = []
    for status in (written, stale):
        budgets = Budgets()
        budgets.charge({"red": queue(status)}, {}, noon)
        spent.append(budgets.spent("red"))
    assert spent == [3_600_000, 0]


GPU = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("taints", "tolerations", "key"),
    [
        ([], [], ""),
        ([GPU], [], "nvidia.com/gpu"),
        ([GPU], [{"key": "nvidia.com/gpu", "operator": "Exists"}], ""),
        ([GPU], [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}], "nvidia.com/gpu"),
        ([GPU], [{"key": "nvidia.com/gpu", "value": "present"}], ""),
        ([GPU], [{"key": "nvidia.com/gpu", "value": "absent"}], "nvidia.com/gpu"),
        ([GPU], [{"operator": "Exists"}], ""),
        ([GPU | {"effect": "PreferNoSchedule"}], [], ""),
        ([GPU, {"key": "down", "effect": "NoExecute"}], [{"key": "nvidia.com/gpu", "operator": "Exists"}], "down"),
    ],
    ids=str,
)
def test_a_taint_keeps_worker_pods_away_as_the_kube_scheduler_would(
    taints: list[dict[str, str]], tolerations: list[dict[str, str]], key: str
) -> None:
    assert untolerated_taint(taints, tolerations) == key


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


async def test_events_of_another_thread_all_arrive_in_their_order() -> None:
    taken: list[int] = []
    everything = asyncio.Event()

    def take(resource: Resource, document: Document, deleted: bool) -> None:
        taken.append(document["number"])
        if len(taken) == 10_000:
            everything.set()

    delivery = EventBridge(take, asyncio.get_running_loop())

    def put() -> None:
        for number in range(10_000):
            delivery.put(PODS, {"number": number}, False)

    await asyncio.gather(asyncio.to_thread(put), everything.wait())
    assert taken == list(range(10_000))


def test_a_watch_is_opened_again_within_seconds_however_long_the_api_server_was_away() -> None:
    pauses = list(itertools.islice(build_settings().networking.error_backoffs, 10_000))  # type: ignore[arg-type]
    assert (len(pauses), max(pauses)) == (10_000, 2.0)


@pytest.mark.parametrize(
    ("condition", "deleting", "reason"),
    [
        ({"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}, True, "Drained"),
        ({"reason": "DeletionByTaintManager"}, True, "NodeTainted"),
        ({"reason": "DeletionByPodGC"}, True, "NodeLost"),
        ({"reason": "TerminationByKubelet", "message": "The node was low on memory."}, False, "EndedByKubelet"),
        ({"reason": "SomethingNew"}, False, "SomethingNew"),
        ({"reason": "EvictionByEvictionAPI", "status": "False"}, False, None),
        (None, True, "PodDeleted"),
        (None, False, None),
    ],
    ids=["drained", "tainted", "no node", "by the kubelet", "a newer word", "no more", "deleted", "nobody"],
)
def test_who_takes_a_pod_away_is_read_from_what_kubernetes_says(
    condition: dict[str, str] | None, deleting: bool, reason: str | None
) -> None:
    said = [{"type": "DisruptionTarget", "status": "True"} | condition] if condition else []
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {}
    found = disruption_of({"metadata": metadata, "status": {"conditions": said}})
    assert (found.reason if found else None) == reason
    assert found is None or found.by_kubelet == (reason == "EndedByKubelet")
