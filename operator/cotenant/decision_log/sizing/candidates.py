"""Classes and numbers of workers for a job: run time and GPU time, measured or estimated.

An estimate is a range, and is compared by its worse end: it is recommended only if even that beats what was measured.
Between classes, the part of the time in which a kernel ran is divided by the ratio of arithmetic and by the ratio of
bandwidth, which are the ends of the range (a roofline, Williams et al. 2009). The rest, in which the GPU waited, stays.
Between numbers of workers with two measurements, seconds(n) = a + b/n through both (Amdahl 1967); with one measurement,
between the whole ideal gain and half of it. This assumes a program that divides its work among its workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from cotenant.api.scalars.quantities import QuantityError, parse_gpus, parse_memory
from cotenant.core.model.objects import WHOLE
from cotenant.decision_log.runs import RunRecord
from cotenant.decision_log.showback.prices import HOUR, NO_PRICES, PriceList
from cotenant.decision_log.sizing.gpu_figures import figures_of
from cotenant.decision_log.sizing.past_runs import Measurement, RunShape, measurements, memory_peak_mib


class Basis(StrEnum):
    MEASURED = "Measured"
    FITTED = "Fitted"
    """Estimated from numbers of workers that were measured on the same class."""
    GUESSED = "Guessed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassFacts:
    """GPUs of one class that the cluster has."""

    gpu_class: str
    memory_mib: int
    """Memory of the smallest GPU."""
    gpus: int
    on_one_node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    shape: RunShape
    seconds: tuple[int, int]
    """(from, to), equal if it was measured."""
    milli: int
    """Milli-GPU that it holds meanwhile."""
    basis: Basis
    runs: int = 0
    price: int | None = None
    """Micro-units for a GPU-hour of the class."""

    @property
    def gpu_seconds(self) -> tuple[int, int]:
        return self.seconds[0] * self.milli // WHOLE, self.seconds[1] * self.milli // WHOLE

    @property
    def cost(self) -> tuple[int, int] | None:
        """Micro-units."""
        if self.price is None:
            return None
        low, high = (one * self.milli * self.price // HOUR for one in self.seconds)
        return low, high


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    candidates: tuple[Candidate, ...] = ()
    """Fastest first, by the worse end."""
    quickest: Candidate | None = None
    cheapest: Candidate | None = None
    """By money if all classes have a price, otherwise by GPU-hours."""
    by_money: bool = False
    runs: int = 0
    left_out: int = 0
    notes: tuple[str, ...] = ()


def sizing(
    runs: Sequence[RunRecord], classes: Iterable[ClassFacts], prices: PriceList = NO_PRICES, *, now: int = 0
) -> Sizing:
    """What suits the job of these runs (newest first), on these classes, at the prices of `now`."""
    measured, left_out = measurements(runs)
    if not measured:
        return Sizing(left_out=left_out, notes=(NOTHING,))
    known = _Known(measured, memory_peak_mib(runs))
    base, notes = known.base, []
    if base.busy_percent is None:
        notes.append("How busy its GPUs were is not known: between classes all of its time is scaled.")
    elif base.busy_percent < 60:
        notes.append(
            f"A kernel ran in {base.busy_percent} % of the time on {base.shape.gpu_class}: a faster class shortens no"
            " more than that part."
        )
    found: list[Candidate] = []
    for facts in sorted(classes, key=lambda one: one.gpu_class):
        if refusal := _refusal(known, facts):
            notes.append(refusal)
        else:
            found += _of_class(known, facts, prices.at(facts.gpu_class, now))
    found.sort(key=lambda one: (one.seconds[1], one.milli, one.shape))
    by_money = bool(found) and all(one.price is not None for one in found)
    return Sizing(
        candidates=tuple(found),
        quickest=found[0] if found else None,
        cheapest=min(found, key=lambda one: _expense(one, by_money=by_money), default=None),
        by_money=by_money,
        runs=sum(one.runs for one in measured),
        left_out=left_out,
        notes=tuple(notes),
    )


NOTHING: Final = (
    "No run of it says how long its work takes: one has to succeed at its first attempt, or tell its steps, and run for"
    " a minute."
)


def _expense(one: Candidate, *, by_money: bool) -> tuple[int, int, RunShape]:
    cost = one.cost
    return (cost[1] if by_money and cost is not None else one.gpu_seconds[1]), one.seconds[1], one.shape


@dataclass(frozen=True, slots=True)
class _Known:
    """What past runs show about a job."""

    measured: Sequence[Measurement]
    peak_mib: int

    @property
    def base(self) -> Measurement:
        """The shape of most runs, from which others are estimated."""
        return self.measured[0]

    def on(self, gpu_class: str) -> dict[int, Measurement]:
        """Workers → measurement, on one class and with one share for each worker."""
        gpu = self.base.shape.gpu
        return {
            one.shape.workers: one for one in self.measured if one.shape == RunShape(gpu_class, one.shape.workers, gpu)
        }


def _refusal(known: _Known, facts: ClassFacts) -> str:
    """Why nothing is said about a class; empty if something is."""
    gpu_class, base = facts.gpu_class, known.base.shape
    part = part_of(base.gpu, facts.memory_mib)
    if part is None or known.peak_mib > _granted_mib(part, facts.memory_mib):
        return f"{gpu_class} has too little memory for it."
    if not known.on(gpu_class) and scales(known.base, facts) is None:
        return f"Nothing is guessed of {gpu_class}: there are no figures of it, or of {base.gpu_class}."
    return ""


def _of_class(known: _Known, facts: ClassFacts, price: int | None) -> Iterator[Candidate]:
    """Numbers of workers on one class: measured ones, one, and half, once and twice the usual number.

    Ranks of one job do not share a GPU unless they use gloo, so a share needs a GPU of its own, as a whole GPU does.
    """
    usual, gpu = known.base.shape.workers, known.base.shape.gpu
    part, own = part_of(gpu, facts.memory_mib) or WHOLE, known.on(facts.gpu_class)
    like = own or known.on(known.base.shape.gpu_class)
    scale = (1.0, 1.0) if own else scales(known.base, facts) or (1.0, 1.0)
    for workers in sorted({1, max(1, usual // 2), usual, 2 * usual, *own}):
        milli = workers * part
        too_many = workers * max(part, WHOLE) > WHOLE * facts.gpus or part > WHOLE * facts.on_one_node
        if workers not in own and too_many:
            continue
        low, high, basis = at_workers(like, workers)
        yield Candidate(
            shape=RunShape(facts.gpu_class, workers, gpu),
            seconds=(round(low * min(scale)), round(high * max(scale))),
            milli=milli,
            basis=basis if own else Basis.GUESSED,
            runs=own[workers].runs if workers in own else 0,
            price=price,
        )


def at_workers(known: Mapping[int, Measurement], workers: int) -> tuple[int, int, Basis]:
    """Seconds (from, to) with this many workers, from those that were measured on one class."""
    if workers in known:
        return known[workers].seconds, known[workers].seconds, Basis.MEASURED
    nearest = sorted(known, key=lambda n: (max(n, workers) / min(n, workers), n))
    if len(nearest) > 1:
        few, many = sorted(nearest[:2])
        fitted = _fitted(few, known[few].seconds, many, known[many].seconds, workers)
        return fitted, fitted, Basis.FITTED
    one = nearest[0]
    seconds = known[one].seconds
    ideal = seconds * one // workers
    if workers > one:
        return ideal, min(seconds, 2 * ideal), Basis.GUESSED
    return max(seconds, ideal // 2), ideal, Basis.GUESSED


def _fitted(few: int, slow: int, many: int, quick: int, workers: int) -> int:
    """The line through two points. If more workers took longer, only the points count. The constant part is at
    least 0.
    """
    if quick >= slow:
        return quick
    divided = (slow - quick) / (1 / few - 1 / many)
    rest = slow - divided / few
    if rest < 0:
        return quick * many // workers
    return round(rest + divided / workers)


def scales(base: Measurement, facts: ClassFacts) -> tuple[float, float] | None:
    """Time on the class divided by the measured time: by arithmetic, by bandwidth. None without figures."""
    before, after = figures_of(base.shape.gpu_class), figures_of(facts.gpu_class)
    if before is None or after is None:
        return None
    held = part_of(base.shape.gpu, before.memory_gb * 1000)
    given = part_of(base.shape.gpu, facts.memory_mib)
    if held is None or given is None:
        return None
    busy = 1.0 if base.busy_percent is None else base.busy_percent / 100
    ratios = (after.tflops * given / (before.tflops * held), after.bandwidth * given / (before.bandwidth * held))
    by_arithmetic, by_bandwidth = (1 - busy + busy / ratio for ratio in ratios)
    return by_arithmetic, by_bandwidth


def part_of(gpu: str, memory_mib: int) -> int | None:
    """Milli-GPU of a worker on GPUs with this much memory: `2` → 2000, `0.4` → 400, `16Gi` of 64 GiB → 250. None if one
    GPU has too little.
    """
    try:
        if gpu and gpu[-1].isdigit():
            return parse_gpus(gpu)
        asked = -(-parse_memory(gpu) // (1 << 20))
    except QuantityError:
        return None
    return None if memory_mib <= 0 or asked > memory_mib else max(1, -(-WHOLE * asked // memory_mib))


def _granted_mib(part: int, memory_mib: int) -> int:
    """Memory granted on each GPU."""
    return memory_mib if part >= WHOLE else memory_mib * part // WHOLE
