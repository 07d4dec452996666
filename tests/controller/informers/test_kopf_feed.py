"""Events change threads in order, and watches are opened again."""

from __future__ import annotations

import asyncio
import itertools

from cotenant.controller.client.kube import PODS, RESOURCE_CLAIMS, Document, Resource
from cotenant.controller.informers.kopf_feed import WATCHED, EventBridge, build_settings, watched


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


async def test_an_event_that_cannot_be_taken_in_holds_up_none_behind_it() -> None:
    taken: list[int] = []
    everything = asyncio.Event()

    def take(resource: Resource, document: Document, deleted: bool) -> None:
        if document["number"] % 2 == 0:
            raise ValueError("a defect")
        taken.append(document["number"])
        if len(taken) == 2:
            everything.set()

    delivery = EventBridge(take, asyncio.get_running_loop())
    for number in range(4):
        delivery.put(PODS, {"number": number}, False)
    await everything.wait()
    assert taken == [1, 3]


def test_a_watch_is_opened_again_within_seconds_however_long_the_api_server_was_away() -> None:
    pauses = list(itertools.islice(build_settings().networking.error_backoffs, 10_000))  # type: ignore[arg-type]
    assert (len(pauses), max(pauses)) == (10_000, 2.0)


def test_claims_are_watched_only_where_they_count() -> None:
    """A cluster before 1.34 does not serve them: a watch of them would never open."""
    assert watched("ignored") == WATCHED
    assert set(watched("counted")) == {*WATCHED, RESOURCE_CLAIMS}
