"""Formatting of amounts and requests for messages to tenants.

No text may depend on the time of day: a message that changes while nothing else did costs a write per waiting job.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Final

from cotenant.core.model.measure import Measure
from cotenant.core.model.objects import WHOLE, GpuRequest, Job, Spread


def format_gpus(milli: int) -> str:
    """1500 → `1.5`."""
    return f"{milli / WHOLE:.3f}".rstrip("0").rstrip(".")


def format_money(micros: int) -> str:
    """Micro-units of a currency, exactly, with at least two decimals: 2500000 → `2.50`, 1 → `0.000001`."""
    whole, rest = divmod(abs(micros), 1_000_000)
    decimals = f"{rest:06d}"
    return f"{'-' if micros < 0 else ''}{whole}.{decimals[:2]}{decimals[2:].rstrip('0')}"


def format_cost(micros: int) -> str:
    """What something has cost, rounded down: to a hundredth, and below a tenth to two digits: `1.99`, `0.012`. So a
    short run never reads as free.
    """
    step: int = 10 ** max(0, min(4, len(str(micros)) - 2))
    return format_money(micros // step * step)


def format_mib(mib: int) -> str:
    return f"{mib // 1024} GiB" if mib % 1024 == 0 and mib else f"{mib} MiB"


def format_cpu(milli: int) -> str:
    return f"{format_gpus(milli)} CPU"


def format_host_memory(mib: int) -> str:
    return f"{format_mib(mib)} of memory"


def format_scratch(mib: int) -> str:
    return f"{format_mib(mib)} of scratch space"


def describe_host_amounts(cpu_milli: int, memory_mib: int, scratch_mib: int) -> str:
    """`4.5 CPU and 2 GiB of memory`, `1 CPU, 2 GiB of memory and 100 GiB of scratch space`."""
    cpu, memory = format_cpu(cpu_milli), format_host_memory(memory_mib)
    return f"{cpu}, {memory} and {format_scratch(scratch_mib)}" if scratch_mib else f"{cpu} and {memory}"


def format_amount(measure: Measure, amount: int) -> str:
    """`2.5 GPU`, `40 GiB`."""
    return format_mib(amount) if measure.is_memory else f"{format_gpus(amount)} GPU"


def format_instant(unix_s: float) -> str:
    """Unix seconds, from 1970 on → `2026-01-01T00:05:00Z`, the next whole second.

    Days to a date of the Gregorian calendar: H. Hinnant, "chrono-Compatible Low-Level Date Algorithms".
    """
    days, second = divmod(ceil(unix_s), 86_400)
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * from_march + 2) // 5 + 1
    month = from_march + 3 if from_march < 10 else from_march - 9
    year = year_of_era + era * 400 + (month <= 2)
    return f"{year:04}-{month:02}-{day:02}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def join_or(names: Sequence[str]) -> str:
    return " or ".join(names)


def describe_worker(request: GpuRequest) -> str:
    if not request.is_share:
        return counted(request.count, "GPU")
    if request.count > 1:
        return _describe_shares(request)
    if request.memory_mib is not None:
        compute = "" if request.compute_milli is None else f" and {format_gpus(request.compute_milli)} of its compute"
        return f"{format_mib(request.memory_mib)} of a GPU{compute}"
    memory = request.memory_milli if request.memory_milli is not None else request.compute_milli or 0
    compute = ""
    if request.compute_milli is not None and request.compute_milli != memory:
        compute = f" ({format_gpus(request.compute_milli)} of its compute)"
    return f"{format_gpus(memory)} GPU{compute}"


def _describe_shares(request: GpuRequest) -> str:
    """`0.5 of each of 2 GPUs`, `16 GiB of each of 2 GPUs and 0.25 of their compute`."""
    memory = request.memory_milli if request.memory_milli is not None else request.compute_milli or 0
    each = format_gpus(memory) if request.memory_mib is None else format_mib(request.memory_mib)
    is_even = request.compute_milli is None or (request.memory_mib is None and request.compute_milli == memory)
    compute = "" if is_even else f" and {format_gpus(request.compute_milli or 0)} of their compute"
    return f"{each} of each of {request.count} GPUs{compute}"


def describe_request(job: Job) -> str:
    """`2 workers × 0.4 GPU of class H100, each on a GPU of its own`."""
    request = job.gpu
    text = (
        describe_worker(request) if job.workers_min == 1 else f"{job.workers_min} workers × {describe_worker(request)}"
    )
    if request.classes:
        text += f" of class {join_or(request.classes)}"
    if request.zones:
        text += f" in zone {join_or(request.zones)}"
    if job.workers_min > 1 and request.is_share and job.distinct_gpus:
        text += ", each on a GPU of its own" if request.count == 1 else ", each on GPUs of its own"
    return text


def describe_spread(spread: Spread) -> str:
    """`at most 1 worker on one node`."""
    where = "on" if spread.level == "node" else "in"
    return f"at most {counted(spread.most, 'worker')} {where} one {spread.level}"


def shown_evidence(evidence: Sequence[tuple[str, str | int]]) -> dict[str, str | int | float]:
    """The figures of a verdict in units that people write: milli-GPU as GPUs, MiB as Gi or Mi, by its `metric`."""
    metric = dict(evidence).get("metric")
    measure = next((one for one in Measure if one == metric), None)
    shown: dict[str, str | int | float] = {}
    for name, value in evidence:
        if isinstance(value, str):
            shown[name] = value
        elif name in _AMOUNTS and measure is not None and not measure.is_memory:
            shown[name] = value // WHOLE if value % WHOLE == 0 else value / WHOLE
        elif (name in _AMOUNTS and measure is not None) or name in {"memory_mib", "scratch_mib"}:
            shown[name.removesuffix("_mib")] = f"{value // 1024}Gi" if value % 1024 == 0 else f"{value}Mi"
        elif name == "cpu_milli":
            shown["cpu"] = format_gpus(value)
        else:
            shown[name] = value
    return shown


_AMOUNTS: Final = frozenset({"limit", "used", "asked", "available"})


def format_duration(seconds: int) -> str:
    """Text as a manifest has it: 5400 → "1h30m", 0 → "0s"."""
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "m"), (seconds, "s"))
    return "".join(f"{amount}{unit}" for amount, unit in parts if amount) or "0s"
