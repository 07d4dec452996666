"""Events change threads in order, and watches are opened again."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import kopf
import pytest
from kopf._cogs.clients import patching
from kopf._cogs.structs import ephemera, references
from kopf._core.engines import indexing
from kopf._core.reactor import inventory, processing

from cotenant import names
from cotenant.controller.client import kube
from cotenant.controller.client.kube import LOCAL_QUEUES, RESOURCE_CLAIMS, TRAINING_JOBS, Document, Resource
from cotenant.controller.informers.feed.kopf_feed import (
    OWN_KINDS,
    WATCHED,
    EventBridge,
    build_registry,
    build_settings,
    watched,
)


class Taken:
    """Takes events in until there are `enough`; fails on even numbers if it is `defective`."""

    def __init__(self, enough: int, *, defective: bool = False) -> None:
        self.numbers: list[int] = []
        self.deleted: list[int] = []
        self.listed: list[Resource] = []
        self.everything = asyncio.Event()
        self._enough, self._defective = enough, defective

    def on_event(self, resource: Resource, document: Document, deleted: bool) -> None:
        if self._defective and document["number"] % 2 == 0:
            raise ValueError("a defect")
        self.numbers.append(document["number"])
        if deleted:
            self.deleted.append(document["number"])
        if len(self.numbers) == self._enough:
            self.everything.set()

    def on_listed(self, resource: Resource) -> None:
        self.listed.append(resource)


async def test_events_of_another_thread_all_arrive_in_their_order() -> None:
    taken = Taken(10_000)
    bridge = EventBridge(taken, asyncio.get_running_loop())

    def put() -> None:
        for number in range(10_000):
            bridge.put(TRAINING_JOBS, {"number": number}, "MODIFIED")

    await asyncio.gather(asyncio.to_thread(put), taken.everything.wait())
    assert taken.numbers == list(range(10_000))


async def test_an_event_that_cannot_be_taken_in_holds_up_none_behind_it() -> None:
    taken = Taken(2, defective=True)
    bridge = EventBridge(taken, asyncio.get_running_loop())
    for number in range(4):
        bridge.put(TRAINING_JOBS, {"number": number}, "MODIFIED")
    await taken.everything.wait()
    assert taken.numbers == [1, 3]


async def test_a_kind_that_kopf_lists_anew_is_named_once_after_its_objects() -> None:
    taken = Taken(4)
    bridge = EventBridge(taken, asyncio.get_running_loop())
    for number, kind in enumerate(("ADDED", None, None, "DELETED")):
        bridge.put(TRAINING_JOBS, {"number": number}, kind)
    await taken.everything.wait()
    assert (taken.deleted, taken.listed) == ([3], [TRAINING_JOBS])


def test_all_of_cotenants_kinds_are_watched_but_the_one_that_is_only_written() -> None:
    own = {value for value in vars(kube).values() if isinstance(value, Resource) and value.group == names.GROUP}
    assert set(OWN_KINDS) == own - {LOCAL_QUEUES}


HANDLED_BY_KOPF = {
    "kopf.zalando.org/last-handled-configuration": "no JSON",
    "kopf.zalando.org/observe-trainingjobs": "no JSON",
}


async def test_what_a_tenant_writes_for_kopf_into_a_job_holds_up_no_event_and_has_nothing_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """kopf takes its own finalizer off an object, with a write that no fence holds back."""
    writes: list[object] = []

    async def record(**write: Any) -> tuple[None, None]:
        writes.append(write["patch"])
        return None, None

    monkeypatch.setattr(patching, "patch_obj", record)
    taken = Taken(1)
    registry = build_registry(EventBridge(taken, asyncio.get_running_loop()))
    resource = references.Resource(TRAINING_JOBS.group, TRAINING_JOBS.version, TRAINING_JOBS.plural, namespaced=True)
    metadata = {
        "name": "a",
        "namespace": "red",
        "uid": "uid-1",
        "finalizers": [kopf.OperatorSettings().persistence.finalizer],
        "annotations": HANDLED_BY_KOPF,
    }
    await processing.process_resource_event(
        lifecycle=kopf.lifecycles.all_at_once,
        indexers=indexing.OperatorIndexers(),
        registry=registry,
        settings=build_settings(),
        memories=inventory.ResourceMemories(),
        memobase=ephemera.AnyMemo(kopf.Memo()),
        resource=resource,
        raw_event={"type": "MODIFIED", "object": {"metadata": metadata, "number": 1}},  # type: ignore[typeddict-item,typeddict-unknown-key]
        event_queue=asyncio.Queue(),
    )
    await taken.everything.wait()
    assert (taken.numbers, writes) == ([1], [])


def test_a_watch_is_opened_again_within_seconds_however_long_the_api_server_was_away() -> None:
    pauses = list(itertools.islice(build_settings().networking.error_backoffs, 10_000))  # type: ignore[arg-type]
    assert (len(pauses), max(pauses)) == (10_000, 2.0)


def test_claims_are_watched_only_where_they_count() -> None:
    """A cluster before 1.34 does not serve them: a watch of them would never open."""
    assert watched("ignored") == WATCHED
    assert set(watched("counted")) == {*WATCHED, RESOURCE_CLAIMS}
