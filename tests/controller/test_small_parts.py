"""Settings, budgets, taints and the gate: small parts with edges of their own. Pure, with simulated loop time."""

from __future__ import annotations

import asyncio
import itertools
from datetime import UTC, datetime
from typing import Any

import pytest

from cotenant.api.resources.queues import Period, Queue
from cotenant.controller.client.kube import PODS, Document, Resource
from cotenant.controller.client.priority_semaphore import Gate
from cotenant.controller.cluster.budgets import Budgets, end_of, start_of
from cotenant.controller.cluster.taints import untolerated_taint
from cotenant.controller.informers.disruption import disruption_of
from cotenant.controller.informers.kopf_feed import EventBridge, build_settings
from cotenant.controller.reports.queue_status_writer import worth_a_write
from cotenant.controller.settings import Settings, SettingsError
from cotenant.core.policy import Policy


def test_flags_win_over_the_environment_and_the_environment_over_defaults() -> None:
    settings = Settings.read({"COTENANT_PORT": "9", "COTENANT_NAMESPACE": "a"}, {"port": "10", "namespace": None})
    assert (settings.port, settings.namespace, settings.tick_s) == (10, "a", 5.0)


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"COTENANT_PORT": "http"}, "COTENANT_PORT='http' is not a int"),
        ({"COTENANT_TICK_S": "0"}, "COTENANT_TICK_S must be above 0"),
        ({"COTENANT_SCRATCH_MIB": "-1"}, "COTENANT_SCRATCH_MIB=-1 is negative"),
        ({"COTENANT_TOLERATIONS": "all"}, "COTENANT_TOLERATIONS is not JSON"),
        ({"COTENANT_TOLERATIONS": "{}"}, "COTENANT_TOLERATIONS must be a JSON list"),
        ({"COTENANT_SERVER_TOLERATIONS": "{}"}, "COTENANT_SERVER_TOLERATIONS must be a JSON list"),
    ],
    ids=str,
)
def test_a_setting_that_makes_no_sense_is_refused_by_name(environment: dict[str, str], named: str) -> None:
    with pytest.raises(SettingsError, match=named.replace("(", r"\(")):
        Settings.read(environment)


def test_what_decisions_are_made_by_can_be_set_and_has_the_defaults_of_the_core() -> None:
    assert Settings().policy == Policy()
    assert Settings.read({"COTENANT_PROTECTED_RUNTIME_S": "600", "COTENANT_MOVES": "0"}).policy == Policy(
        protected_runtime_s=600, moves=0
    )


def test_two_replicas_have_two_names() -> None:
    assert Settings.read({}).identity != Settings.read({}).identity


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


@pytest.mark.looptime
async def test_the_gate_lets_the_important_go_first_and_never_more_than_its_width() -> None:
    gate, inside, order, most = Gate(2), 0, [], 0

    async def call(rank: int, name: str) -> None:
        nonlocal inside, most
        async with gate.passage(rank):
            inside += 1
            most = max(most, inside)
            order.append(name)
            await asyncio.sleep(1)
            inside -= 1

    await asyncio.gather(*(call(1, f"create-{i}") for i in range(4)), *(call(0, f"commit-{i}") for i in range(2)))
    assert (order, most) == (["create-0", "create-1", "commit-0", "commit-1", "create-2", "create-3"], 2)


@pytest.mark.looptime
async def test_whoever_gives_up_waiting_leaves_no_hole_in_the_gate() -> None:
    gate = Gate(1)

    async def call(seconds: float) -> None:
        async with gate.passage(0):
            await asyncio.sleep(seconds)

    first = asyncio.create_task(call(5))
    impatient = [asyncio.create_task(call(1)) for _ in range(3)]
    await asyncio.sleep(1)
    for task in impatient:
        task.cancel()
    await first
    async with asyncio.timeout(2):
        await call(1)


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
