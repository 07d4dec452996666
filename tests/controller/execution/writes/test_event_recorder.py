"""Kubernetes Events: at a bounded rate, after everything else, and dropped rather than waited for."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from cotenant.controller.client.fence import Fence
from cotenant.controller.client.kube import EVENTS, Document, Reply, Resource
from cotenant.controller.execution.writes import event_recorder
from cotenant.controller.execution.writes.event_recorder import EventRecorder
from cotenant.controller.informers.job_record import read_job
from cotenant.controller.lifecycle.observation import EventToRecord
from cotenant.controller.telemetry.metrics import Metrics
from tests.controller.builders import UID, job_document
from tests.support.api_faults import Fault
from tests.support.fake_kube import FakeKube

pytestmark = pytest.mark.looptime
RECORD = read_job(job_document())


async def written(
    kube: FakeKube, *events: EventToRecord, seconds: float, rate: float = 10.0
) -> tuple[list[Document], int]:
    """The Events that are there after so long, and how many were dropped."""
    metrics = Metrics()
    recorder = EventRecorder(kube, metrics, identity="replica", per_second=rate)
    for event in events:
        recorder.record(RECORD, event)
    task = asyncio.create_task(recorder.run())
    await asyncio.sleep(seconds)
    task.cancel()
    dropped = metrics.registry.get_sample_value("cotenant_events_dropped_total")
    return list((await kube.list(EVENTS, "red")).items), int(dropped or 0)


def event(reason: str = "Admitted", **fields: Any) -> EventToRecord:
    return EventToRecord(reason=reason, message="m", **fields)


async def test_an_event_names_its_job_and_says_what_happened() -> None:
    (made,), _ = await written(FakeKube(), event("Failed", warning=True), seconds=1.0)
    assert {
        key: made[key] for key in ("involvedObject", "reason", "action", "message", "type", "reportingInstance")
    } == {
        "involvedObject": {
            "apiVersion": "cotenant.dev/v1beta1",
            "kind": "TrainingJob",
            "namespace": "red",
            "name": "train",
            "uid": UID,
        },
        "reason": "Failed",
        "action": "Failed",
        "message": "m",
        "type": "Warning",
        "reportingInstance": "replica",
    }


async def test_an_event_has_the_times_that_kubectl_sorts_by() -> None:
    (made,), _ = await written(FakeKube(), event(), seconds=1.0)
    assert made["firstTimestamp"] == made["lastTimestamp"]
    assert made["eventTime"].startswith(made["lastTimestamp"].removesuffix("Z"))
    assert (made["apiVersion"], made["count"]) == ("v1", 1)


async def test_no_more_are_written_than_the_rate_allows() -> None:
    kube = FakeKube()
    made, dropped = await written(kube, *(event() for _ in range(100)), seconds=2.05, rate=10.0)
    assert (len(made), dropped) == (21, 0)


async def test_a_backlog_that_is_full_drops_and_counts() -> None:
    _, dropped = await written(FakeKube(), *(event() for _ in range(1_007)), seconds=0.0)
    assert dropped == 7


async def test_a_rate_of_zero_writes_none() -> None:
    made, dropped = await written(FakeKube(), event(), seconds=5.0, rate=0.0)
    assert (made, dropped) == ([], 0)


async def test_an_event_that_cannot_be_written_is_dropped_and_the_next_one_is_not() -> None:
    kube = FakeKube(Fault(call="POST events/*", lost="request"))
    made, dropped = await written(kube, event("Admitted"), event("Running"), seconds=1.0)
    assert ([one["reason"] for one in made], dropped) == (["Running"], 1)


async def test_a_replica_that_does_not_lead_writes_no_events() -> None:
    made, dropped = await written(FakeKube(before_write=Fence(lambda: False).check), event(), seconds=1.0)
    assert (made, dropped) == ([], 1)


async def test_a_message_is_cut_where_the_api_server_takes_no_more() -> None:
    messages = ["m" * 1_024, "m" * 1_025]
    made, _ = await written(FakeKube(), *(EventToRecord(reason="R", message=one) for one in messages), seconds=1.0)
    assert sorted(one["message"] for one in made) == sorted(["m" * 1_024, "m" * 1_023 + "…"])


async def test_a_message_is_plain_whatever_it_quotes() -> None:
    quoted = EventToRecord(reason="\x1b[31m" * 100, message="one\x1b[2J\ntwo \u202e\ud800")
    (made,), _ = await written(FakeKube(), quoted, seconds=1.0)
    assert (made["message"], len(made["reason"]), made["action"]) == (
        "one\\x1b[2J\ntwo \\u202e\\ud800",
        128,
        made["reason"],
    )
    assert made["reason"].isprintable()


async def test_an_event_that_cannot_be_written_at_all_is_dropped_and_the_next_one_is_not() -> None:
    class Choosy(FakeKube):
        async def create(self, resource: Resource, body: Mapping[str, Any], namespace: str = "") -> Reply:
            if body["reason"] == "Odd":
                raise TypeError("what no encoder takes")
            return await super().create(resource, body, namespace)

    made, dropped = await written(Choosy(), EventToRecord(reason="Odd", message=""), event("Admitted"), seconds=1.0)
    assert ([one["reason"] for one in made], dropped) == (["Admitted"], 1)


async def test_the_time_of_a_write_is_part_of_the_pause_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(FakeKube):
        async def create(self, resource: Resource, body: Mapping[str, Any], namespace: str = "") -> Reply:
            await asyncio.sleep(0.05)
            return await super().create(resource, body, namespace)

    monkeypatch.setattr(event_recorder, "time", SimpleNamespace(monotonic=asyncio.get_running_loop().time))
    made, _ = await written(Slow(), *(event() for _ in range(100)), seconds=1.08, rate=10.0)
    assert len(made) == 11


def test_names_are_short_enough_for_the_api_server() -> None:
    made = event_recorder.kubernetes_event(RECORD, event(), "i" * 200, datetime(2026, 1, 1, tzinfo=UTC))
    assert re.fullmatch(r"train\.[0-9a-f]{16}", made["metadata"]["name"])
    assert made["reportingInstance"] == "i" * 128


async def test_an_event_that_is_recorded_once_is_not_there_twice() -> None:
    told = [event("StatusUnreadable", once=True)] * 3 + [event("Other", once=True), event("Again"), event("Again")]
    made, dropped = await written(FakeKube(), *told, seconds=2.0)
    assert sorted(one["reason"] for one in made) == ["Again", "Again", "Other", "StatusUnreadable"]
    assert dropped == 0
