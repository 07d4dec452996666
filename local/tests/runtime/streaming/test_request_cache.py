"""One-time addresses: good once, for one kind, for a minute."""

import time

import pytest

from cotenant_local.runtime.streaming.request_cache import RequestCache


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_an_address_is_good_once_and_for_its_own_kind(clock: list[float]) -> None:
    cache = RequestCache()
    path = cache.insert("exec", "container", "asked")
    found = cache.consume(path)
    assert found is not None
    assert (found.kind, found.target, found.asked, found.expires) == ("exec", "container", "asked", 160.0)
    assert cache.consume(path) is None
    assert cache.consume(cache.insert("exec", "c", "a").replace("exec", "attach")) is None
    assert cache.consume("/exec/guessed") is None


def test_an_address_is_good_for_a_minute_and_then_forgotten(clock: list[float]) -> None:
    cache = RequestCache()
    paths = [cache.insert("exec", "c", number) for number in range(2)]
    clock[0] = 159.9
    assert cache.consume(paths[0]) is not None
    clock[0] = 160.0
    assert cache.consume(paths[1]) is None
    cache.insert("exec", "c", "old")
    clock[0] = 220.0
    cache.insert("exec", "c", "new")
    assert [request.asked for request in cache.waiting.values()] == ["new"]
