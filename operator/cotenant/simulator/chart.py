"""The comparison as a picture: how long jobs took, and how many GPUs were busy over time; one line per policy.

Plain SVG without a library: two line charts. Sizes are in units of the picture. Equal outcomes give equal bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, log10

from cotenant.core.model.objects import WHOLE
from cotenant.simulator.comparison import Played
from cotenant.simulator.outcomes import HOUR, Load
from cotenant.simulator.report import mean

COLOURS = ("#2563eb", "#d97706", "#059669", "#db2777", "#7c3aed", "#64748b", "#0891b2", "#b91c1c")
WIDTH, HEIGHT, LEFT, TOP, GAP = 960, 250, 70, 60, 80
_POINTS = 400
"""Samples per line. More could not be told apart."""


@dataclass(frozen=True, slots=True)
class _Plot:
    top: float
    across: Callable[[float], float]
    up: Callable[[float], float]
    """Value → part of the height, from 0 to 1."""

    def x(self, value: float) -> float:
        return LEFT + (WIDTH - LEFT - 30) * min(1.0, max(0.0, self.across(value)))

    def y(self, value: float) -> float:
        return self.top + HEIGHT * (1.0 - min(1.0, max(0.0, self.up(value))))


def svg(played: Sequence[Played], gpus: int, title: str) -> str:
    height = TOP + 2 * HEIGHT + 2 * GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif"'
        ' font-size="12" fill="#334155">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="24" font-size="15">{escape(title)}</text>',
        *_legend(played),
        *_completion_times(played, TOP + 10),
        *_busy_gpus(played, gpus, TOP + HEIGHT + GAP),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _legend(played: Sequence[Played]) -> list[str]:
    found, x = [], LEFT
    for one, colour in zip(played, _colours(played), strict=True):
        jct_h = mean([outcome.jct_s / HOUR for outcome in one.outcomes if outcome.end is not None])
        text = f"{one.policy}{' (pool)' if one.is_yardstick else ''}: mean {jct_h:.2f} h"
        found.append(f'<rect x="{x}" y="38" width="12" height="4" fill="{colour}"/>')
        found.append(f'<text x="{x + 16}" y="45">{escape(text)}</text>')
        x += 40 + 7 * len(text)
    return found


def _completion_times(played: Sequence[Played], top: float) -> list[str]:
    times = [sorted(one.jct_s for one in policy.outcomes if one.end is not None) for policy in played]
    longest = max((own[-1] for own in times if own), default=60.0)
    low, high = 1.0, ceil(log10(max(60.0, longest)))
    plot = _Plot(top, lambda seconds: (log10(max(10.0, seconds)) - low) / (high - low), lambda share: share)
    marks = [
        (60, "1 min"),
        (600, "10 min"),
        (3600, "1 h"),
        (36_000, "10 h"),
        (360_000, "100 h"),
        (3_600_000, "1,000 h"),
    ]
    found = _frame(plot, "jobs that took at most so long (JCT)", [mark for mark in marks if mark[0] <= 10**high])
    found += _levels(plot, [(share / 4, f"{25 * share} %") for share in range(5)])
    for own, colour in zip(times, _colours(played), strict=True):
        some = sorted({min(len(own) - 1, len(own) * number // _POINTS) for number in range(_POINTS + 1)} if own else ())
        found.append(_line(plot, [(own[index], (index + 1) / len(own)) for index in some], colour))
    return found


def _busy_gpus(played: Sequence[Played], gpus: int, top: float) -> list[str]:
    outcomes = [outcome for one in played for outcome in one.outcomes]
    first = min((one.submitted_at for one in outcomes), default=0.0)
    last = max((one.end or one.submitted_at for one in outcomes), default=1.0)
    span = max(1.0, last - first)
    plot = _Plot(top, lambda at: (at - first) / span, lambda busy: busy / gpus)
    days = max(1, ceil(span / 86_400 / 14))
    marks = [(first + day * 86_400, f"day {day}") for day in range(0, int(span // 86_400) + 1, days)]
    found = _frame(plot, f"GPUs in use, of {gpus}", marks)
    found += _levels(plot, [(gpus * share / 4, f"{gpus * share / 4:,.0f}") for share in range(5)])
    for one, colour in zip(played, _colours(played), strict=True):
        held = Load((part.start, part.end, part.milli / WHOLE) for outcome in one.outcomes for part in outcome.held)
        step = span / _POINTS
        line = [
            (first + step * (number + 0.5), held.mean(first + step * number, first + step * (number + 1)))
            for number in range(_POINTS)
        ]
        found.append(_line(plot, line, colour))
    return found


def _frame(plot: _Plot, title: str, marks: Sequence[tuple[float, str]]) -> list[str]:
    bottom = plot.top + HEIGHT
    found = [f'<text x="{LEFT}" y="{plot.top - 8:.0f}" font-size="13">{escape(title)}</text>']
    for value, text in marks:
        x = plot.x(value)
        found.append(f'<path d="M{x:.1f} {plot.top:.1f}V{bottom:.1f}" stroke="#e2e8f0"/>')
        found.append(f'<text x="{x:.1f}" y="{bottom + 16:.1f}" text-anchor="middle">{text}</text>')
    return found


def _levels(plot: _Plot, levels: Sequence[tuple[float, str]]) -> list[str]:
    found = []
    for value, text in levels:
        y = plot.y(value)
        found.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - 30}" stroke="#e2e8f0"/>')
        found.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    return found


def _line(plot: _Plot, points: Sequence[tuple[float, float]], colour: str) -> str:
    path = " ".join(f"{plot.x(x):.1f},{plot.y(y):.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>'


def _colours(played: Sequence[Played]) -> list[str]:
    return [COLOURS[number % len(COLOURS)] for number in range(len(played))]
