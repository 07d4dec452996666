"""Amounts as other systems write them, as they are written here; whatever is no amount has no respelling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from cotenant.api.scalars import respellings
from cotenant.api.scalars.respellings import decimal, duration, fraction, memory

ROWS: list[tuple[Callable[[Any], Any], Any, Any]] = [
    (duration, 3600, "1h"),
    (duration, "90", "1m30s"),
    (duration, "1 day", "24h"),
    (duration, "1h, 30 minutes", "1h30m"),
    (duration, "1.5h", "1h30m"),
    (duration, "2 Weeks", "336h"),
    (duration, "PT1H30M", "1h30m"),
    (duration, "P1D", "24h"),
    (duration, "01:30:00", "1h30m"),
    (duration, "2-00:00:00", "48h"),
    (duration, "1500ms", None),
    (duration, "soon", None),
    (duration, "", None),
    (duration, 0, None),
    (duration, -5, None),
    (duration, True, None),
    (memory, 16, "16Gi"),
    (memory, "16384", "16384Mi"),
    (memory, 17179869184, "16Gi"),
    (memory, "16GB", "16G"),
    (memory, "16 GiB", "16Gi"),
    (memory, "16g", "16Gi"),
    (memory, "1.5gb", "1.5G"),
    (memory, "512KB", "512k"),
    (memory, "16", "16Gi"),
    (memory, "16P", None),
    (memory, 0, None),
    (memory, "A100", None),
    (fraction, 0.4, "0.4"),
    (fraction, ".4", "0.4"),
    (fraction, "0,4", "0.4"),
    (fraction, "40 %", "0.4"),
    (fraction, 40, "0.4"),
    (fraction, "400m", "0.4"),
    (fraction, "2/5", "0.4"),
    (fraction, "1/3", "0.333"),
    (fraction, 0.4567, "0.456"),
    (fraction, "0.0009", None),
    (fraction, 1, None),
    (fraction, "150%", None),
    (fraction, 0, None),
    (fraction, float("nan"), None),
    (fraction, [0.5], None),
    (decimal, 0.5, "0.5"),
    (decimal, "4 cores", 4),
    (decimal, "500m", "0.5"),
    (decimal, "2 GPUs", 2),
    (decimal, "1e1", 10),
    (decimal, float("inf"), None),
    (decimal, "1e400", None),
    (decimal, "many", None),
]


@pytest.mark.parametrize(("respell", "value", "want"), ROWS, ids=lambda part: getattr(part, "__name__", repr(part)))
def test_an_amount_as_it_is_written_here(respell: Callable[[Any], Any], value: Any, want: Any) -> None:
    assert respell(value) == want


@given(
    some.sampled_from([duration, memory, fraction, decimal]),
    some.text()
    | some.floats()
    | some.integers()
    | some.from_regex(r"[0-9.eE+-]{1,30}[a-zA-Z%/ ]{0,9}", fullmatch=True),
)
def test_nothing_that_is_written_makes_a_respelling_fail(respell: Callable[[Any], Any], value: Any) -> None:
    assert isinstance(respell(value), str | int | None)


def test_a_text_without_end_is_not_looked_at() -> None:
    assert [getattr(respellings, name)("1" * 10**6) for name in ("duration", "memory", "fraction", "decimal")] == [
        None
    ] * 4
