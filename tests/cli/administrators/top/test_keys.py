"""What keys do in `cotenant top`."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.cli.administrators.top.keys import listed, pressed
from cotenant.cli.administrators.top.view import SORTS, VIEWS, Overlay, TopView
from tests.cli.administrators.top.played_top import after, at_cursor, shown


@pytest.mark.parametrize(
    ("keys", "first"),
    [
        ("3", "next"), ("3s", "big"), ("\t\t", "next"), ("3/big\n", "big"), ("3/BIG\n", "big"),
        ("3/nobody\x1b", "next"),
        ("3A", "big"), ("3AA", "next"), ("3AAA", "big"), ("3>", "big"), ("3><", "next"), ("3/big\n\x1b", "next"),
    ],
)  # fmt: skip
def test_keys_choose_the_view_the_order_and_what_is_searched_for(keys: str, first: str) -> None:
    assert shown(after(keys))[4].split()[1] == first


@pytest.mark.parametrize(
    ("keys", "row"),
    [
        ([], "lab"),
        (["j"], "team-a"),
        (["KEY_DOWN", "KEY_DOWN", "KEY_DOWN", "KEY_UP"], "team-a"),
        (["G"], "team-b"),
        (["KEY_END", "KEY_HOME"], "lab"),
        (["KEY_NPAGE"], "team-b"),
        (["G", "KEY_PPAGE"], "lab"),
        (["/", *"team", "\n", "\x1b", "n"], "team-a"),
        (["/", *"team", "\n", "\x1b", "n", "n"], "team-b"),
        (["/", *"team", "\n", "\x1b", "n", "n", "n"], "team-a"),
        (["/", *"lab", "\n", "\x1b", "n"], "lab"),
        (["n"], "lab"),
        (["G", "\n", "\x1b"], "team-b"),
        (["j", "U"], "lab"),
        (["G", "U", "U"], "team-b"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_the_cursor_goes_where_the_key_says(keys: list[str], row: str) -> None:
    assert at_cursor(after(keys)).split()[0] == row


def test_the_cursor_stays_on_its_row_when_others_come_before_it() -> None:
    chosen = after(["j"])
    assert (chosen.chosen, at_cursor(after(["/", *"team-a", "\n"], chosen)).split()[0]) == ("team-a", "team-a")


def test_the_list_scrolls_so_that_the_cursor_is_seen_and_no_further() -> None:
    view = TopView(view="Waiting")
    assert at_cursor(view, rows=7).split()[1] == "next"
    view = after(["KEY_DOWN"] * 9, view, rows=7)
    assert at_cursor(view, rows=7).split()[1] == "big"
    assert at_cursor(after(["KEY_UP"], view, rows=7), rows=7).split()[1] == "next"


@pytest.mark.parametrize("key", ["q", "KEY_F(10)", "\x03"])
def test_a_key_leaves(key: str) -> None:
    assert pressed(TopView(), key) is None


@pytest.mark.parametrize("key", ["q", "\x1b", "\n", "KEY_F(10)"])
@pytest.mark.parametrize("overlay", [Overlay.DETAILS, Overlay.KEYS])
def test_a_key_goes_back_to_the_list(key: str, overlay: Overlay) -> None:
    assert pressed(TopView(overlay=overlay), key) == TopView()


def test_letters_are_of_the_search_while_it_is_typed() -> None:
    typing = TopView(typing=True)
    found: list[Any] = [pressed(typing, key) for key in ("q", "KEY_BACKSPACE", "KEY_DOWN", "?")]
    assert found == [TopView(typing=True, search="q"), typing, typing, TopView(typing=True, search="?")]


@pytest.mark.parametrize("name", VIEWS)
def test_every_order_has_a_letter_of_its_own_that_is_told(name: str) -> None:
    letters = [order[0].upper() for order in SORTS[name]]
    assert len(set(letters)) == len(letters)
    assert set(letters) <= {keys for keys, _ in listed(TopView(view=name))}
    assert not set(letters) & {"G"}, "a letter that moves the cursor"
