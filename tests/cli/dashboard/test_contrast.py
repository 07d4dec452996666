"""Contrast of the style sheet's colours in both schemes, as WCAG 2.2 AA asks: 4.5 for text, 3 for what is drawn."""

from __future__ import annotations

import re

import pytest

from cotenant.dashboard.markup import asset
from cotenant.dashboard.views.tenants import COLOURS

SHEET = asset("dashboard.css").decode()
TEXTS = [
    *((text, ground) for text in ("text", "quiet", "link", "bad") for ground in ("ground", "raised")),
    ("note-text", "note"),
    ("ground", "text"),  # what is chosen stands inverted
]
DRAWN = [
    *((f"t{number}", "ground") for number in range(COLOURS)),
    *((name, "ground") for name in ("own", "borrowed", "limit", "edge", "focus", "bad")),
    ("own", "guaranteed"),
    ("edge", "raised"),
    ("focus", "raised"),
]


def colours(scheme: str) -> dict[str, str]:
    blocks = re.findall(r":root \{(.*?)\}", SHEET, re.DOTALL)
    light = dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", blocks[0]))
    return light if scheme == "light" else light | dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", blocks[1]))


def luminance(colour: str) -> float:
    """Relative luminance of an sRGB colour, https://www.w3.org/TR/WCAG22/#dfn-relative-luminance."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_black_on_white_is_twenty_one() -> None:
    assert round(contrast("#000000", "#ffffff"), 2) == 21


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("pairs", "least"), [(TEXTS, 4.5), (DRAWN, 3.0)], ids=["texts", "drawings"])
def test_colours_stand_out_enough(scheme: str, pairs: list[tuple[str, str]], least: float) -> None:
    known = colours(scheme)
    found = {(one, ground): round(contrast(known[one], known[ground]), 2) for one, ground in pairs}
    assert {pair: ratio for pair, ratio in found.items() if ratio < least} == {}


def test_both_schemes_name_the_same_colours_and_every_tenant_has_one() -> None:
    assert colours("light").keys() == colours("dark").keys()
    for number in range(COLOURS):
        assert f".t{number} {{ fill: var(--t{number}); background: var(--t{number}); }}" in SHEET
