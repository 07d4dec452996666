"""What is asynchronous, waited for from a program without a loop."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from cotenant.sdk.background_loop import BackgroundLoop

closed: list[str] = []


async def numbers() -> AsyncIterator[int]:
    try:
        for one in range(3):
            yield one
    finally:
        closed.append("closed")


async def fails() -> None:
    raise KeyError("name")


def test_results_errors_and_items_come_to_the_caller() -> None:
    loop = BackgroundLoop()
    assert list(loop.iterate(numbers())) == [0, 1, 2]
    with pytest.raises(KeyError, match="name"):
        loop.call(fails())
    loop.close()


def test_who_stops_early_ends_the_iteration_there_too() -> None:
    loop, before = BackgroundLoop(), len(closed)
    items = loop.iterate(numbers())
    assert next(iter(items)) == 0
    items.close()  # type: ignore[attr-defined]
    assert len(closed) == before + 1
    loop.close()


async def note_the_end() -> None:
    closed.append("at the end")


def test_what_is_left_to_do_is_done_when_the_last_who_holds_it_lets_go() -> None:
    loop, before = BackgroundLoop(at_end=note_the_end), len(closed)
    assert next(iter(loop.iterate(numbers()))) == 0
    loop.close()
    assert closed[before:] == ["closed", "at the end"]
    assert next(iter(loop.iterate(numbers()))) == 0
    del loop
    assert closed[before:] == ["closed", "at the end"] * 2


def test_a_loop_that_was_never_used_has_nothing_to_end() -> None:
    before = len(closed)
    BackgroundLoop(at_end=note_the_end).close()
    assert closed[before:] == []
