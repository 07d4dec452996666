"""Result of a scenario beside its goal. CPU seconds count, because other work on the machine distorts them least."""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    scenario: str
    measured: float
    unit: str
    goal: str
    met: bool
    cpu_s: float
    wall_s: float
    note: str
    peak_mib: int


def peak_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


@dataclass(frozen=True)
class Spent:
    cpu: float
    wall: float


def timed(call: Callable[[], T]) -> tuple[Spent, T]:
    gc.collect()  # what the set-up left behind is not the cycle's to clear
    cpu, wall = time.process_time(), time.perf_counter()
    found = call()
    return Spent(time.process_time() - cpu, time.perf_counter() - wall), found


def rate(scenario: str, count: int, unit: str, goal: float, *, spent: Spent, note: str) -> Row:
    measured = count / spent.cpu
    return Row(scenario, measured, unit, f"≥ {goal:g}", measured >= goal, spent.cpu, spent.wall, note, peak_mib())


def duration(scenario: str, goal: float, *, spent: Spent, note: str) -> Row:
    return Row(scenario, spent.cpu, "s", f"≤ {goal:g}", spent.cpu <= goal, spent.cpu, spent.wall, note, peak_mib())
