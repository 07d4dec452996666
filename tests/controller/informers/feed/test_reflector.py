"""A list and then a watch: nothing is missed and nothing stays that is gone, whatever becomes of the watch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.controller.client.kube import Document, Kube, Listing, Reply, Resource
from cotenant.controller.informers.feed.reflector import Reflector, pause_s
from tests.support.api_faults import Fault
from tests.support.fake_kube import FakeKube

if TYPE_CHECKING:
    pass

CONFIG_MAPS = Resource("", "v1", "configmaps")
NAMESPACE = "default"


class Seen:
    """What a reflector has handed on."""

    def __init__(self, kube: Kube) -> None:
        self.objects: dict[str, Document] = {}
        self.news: list[str] = []
        self.changed = asyncio.Event()
        self.reflector = Reflector(kube=kube, resource=CONFIG_MAPS, replace=self.replace, put=self.put)

    @property
    def data(self) -> dict[str, str]:
        return {name: document["data"]["a"] for name, document in self.objects.items() if "a" in document["data"]}

    def replace(self, resource: Resource, listing: Listing) -> None:
        self.objects = {one["metadata"]["name"]: one for one in listing.items if "data" in one}
        self.news.append("list")
        self.changed.set()

    def put(self, resource: Resource, document: Document, deleted: bool) -> None:
        if document["metadata"]["name"] == "broken":
            raise ValueError("a defect")
        if deleted:
            self.objects.pop(document["metadata"]["name"], None)
        elif "data" in document:
            self.objects[document["metadata"]["name"]] = document
        self.news.append("-" if deleted else document["data"].get("a", ""))
        self.changed.set()

    async def until(self, true: Callable[[], bool], within_s: float = 60.0) -> None:
        async with asyncio.timeout(within_s):
            while not true():
                self.changed.clear()
                await self.changed.wait()


@asynccontextmanager
async def reflecting(kube: Kube) -> AsyncIterator[Seen]:
    seen = Seen(kube)
    task = asyncio.create_task(seen.reflector.run())
    try:
        yield seen
        assert not task.done()
    finally:
        task.cancel()


async def make(kube: Kube, name: str, value: str = "1") -> Reply:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": value}}
    return await kube.create(CONFIG_MAPS, body, NAMESPACE)


async def change(kube: Kube, name: str, value: str) -> Reply:
    return await kube.patch(CONFIG_MAPS, name, {"data": {"a": value}}, namespace=NAMESPACE)


@pytest.mark.looptime
async def test_what_was_there_comes_as_a_list_and_what_comes_after_it_in_order() -> None:
    kube = FakeKube()
    await make(kube, "one")
    async with reflecting(kube) as seen:
        await seen.until(lambda: bool(seen.objects))
        await change(kube, "one", "2")
        await make(kube, "two")
        await kube.delete(CONFIG_MAPS, "one", NAMESPACE)
        await seen.until(lambda: "one" not in seen.objects)
        assert (seen.data, seen.news) == ({"two": "1"}, ["list", "2", "1", "-"])


@pytest.mark.looptime
async def test_a_watch_that_the_server_ends_goes_on_where_it_was_without_a_list() -> None:
    kube = FakeKube()
    async with reflecting(kube) as seen:
        await seen.until(lambda: seen.news == ["list"])
        for number in range(20):
            await make(kube, f"one-{number}", str(number))
            if number % 3 == 0:
                kube.end_watches()
        await seen.until(lambda: len(seen.objects) == 20)
        assert seen.news == ["list", *map(str, range(20))]


@pytest.mark.looptime
async def test_what_the_server_has_forgotten_is_listed_anew_and_what_went_meanwhile_is_gone() -> None:
    kube = FakeKube()
    await make(kube, "goes")
    await make(kube, "stays")
    async with reflecting(kube) as seen:
        await seen.until(lambda: len(seen.objects) == 2)
        kube.end_watches()
        await kube.delete(CONFIG_MAPS, "goes", NAMESPACE)
        kube.end_watches(forget=True)
        await seen.until(lambda: seen.news.count("list") == 2)
        assert set(seen.objects) == {"stays"}


@pytest.mark.looptime
async def test_after_an_outage_of_any_length_events_come_within_seconds() -> None:
    kube = FakeKube()
    async with reflecting(kube) as seen:
        await make(kube, "one")
        await seen.until(lambda: "one" in seen.objects)
        over = asyncio.Event()
        kube.faults.add(*(Fault(call="[WL]*[HT] configmaps", lost="request") for _ in range(1000)))
        kube.faults.add(Fault(call="[WL]*[HT] configmaps", lost="request", first=over.set))
        kube.end_watches()
        await over.wait()
        await make(kube, "two")
        ended = asyncio.get_running_loop().time()
        await seen.until(lambda: "two" in seen.objects)
        assert asyncio.get_running_loop().time() - ended < 3.0


@pytest.mark.looptime
async def test_an_event_that_cannot_be_taken_in_holds_up_none_behind_it() -> None:
    kube = FakeKube()
    async with reflecting(kube) as seen:
        await make(kube, "broken")
        await make(kube, "next")
        await seen.until(lambda: "next" in seen.objects)


@pytest.mark.looptime
async def test_a_server_that_never_had_the_version_is_listed_anew() -> None:
    """Restored from an older copy: it fails each watch, and does not say that the version is gone."""
    kube = FakeKube()
    async with reflecting(kube) as seen:
        await seen.until(lambda: seen.news == ["list"])
        kube.faults.add(*(Fault(call="WATCH configmaps", lost="request") for _ in range(4)))
        kube.end_watches()
        await seen.until(lambda: seen.news.count("list") >= 2)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("make"), st.integers(0, 3)),
        st.tuples(st.just("change"), st.integers(0, 3)),
        st.tuples(st.just("delete"), st.integers(0, 3)),
        st.sampled_from([("end", 0), ("forget", 0), ("look", 0), ("lost", 0)]),
    ),
    max_size=30,
)


@pytest.mark.looptime
@settings(max_examples=100, deadline=None)
@given(STEPS)
async def test_in_any_order_of_writes_and_broken_watches_the_end_is_what_the_server_has(
    steps: list[tuple[str, int]],
) -> None:
    kube = FakeKube()
    async with reflecting(kube) as seen:
        for number, (step, index) in enumerate(steps):
            name = f"one-{index}"
            if step == "make":
                await make(kube, name, f"{number}")
            elif step == "change":
                await change(kube, name, f"{number}")
            elif step == "delete":
                await kube.delete(CONFIG_MAPS, name, NAMESPACE)
            elif step == "look":
                await asyncio.sleep(0.1)
            elif step == "lost":
                kube.faults.add(Fault(call="[WL]*[HT] configmaps", lost="request"))
            else:
                kube.end_watches(forget=step == "forget")
        found = (kube.stored(CONFIG_MAPS, f"one-{index}", NAMESPACE) for index in range(4))
        stored = {one["metadata"]["name"]: one["data"]["a"] for one in found if one}
        await seen.until(lambda: seen.data == stored, within_s=600.0)


def test_pauses_between_tries_stay_short() -> None:
    assert [pause_s(failures) for failures in (1, 2, 3, 10_000)] == [0.5, 1.0, 2.0, 2.0]
