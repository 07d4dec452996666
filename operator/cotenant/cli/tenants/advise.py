"""`cotenant advise`: which class and how many workers suit a job, from its past runs and the figures of the classes."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from cotenant.cli.tenants.records import gpu_hours, length
from cotenant.cli.terminal.cluster_verb import cluster_verb
from cotenant.cli.terminal.connection import connect
from cotenant.cli.terminal.object_names import named
from cotenant.cli.terminal.output import Colour, counted, painted, table
from cotenant.cli.terminal.watch import show_found
from cotenant.sdk.job_paths import below

SHOWN_MAX: Final = 16
_Candidate = Mapping[str, Any]
_BASIS: Final = {"Measured": "measured", "Fitted": "fitted", "Guessed": "guessed"}


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = cluster_verb(
        verbs, "advise", run, "suggest a GPU class and a number of workers for a job, from its past runs", printed=True
    )
    parser.add_argument(
        "job", metavar="JOB", nargs="?", help="NAME, or NAMESPACE/NAME; the job may be deleted (default: all jobs)"
    )


def run(args: argparse.Namespace) -> int:
    if args.job:
        connection, job = named(args, args.job)
        read = partial(connection.get, below("", job.namespace, "advices", job.name))
        return show_found(args, read, lambda found, _: lines(found))
    connection = connect(args)
    read = partial(connection.get, below("", connection.namespace, "advices"))
    return show_found(args, read, lambda found, _: [overview(found, connection.namespace)])


def lines(advice: Mapping[str, Any]) -> Iterator[str]:
    metadata, status = advice["metadata"], advice["status"]
    name = painted(f"{metadata['namespace']}/{metadata['name']}", Colour.BOLD)
    runs, left_out = status["runs"], status["leftOut"]
    yield f"{name}: {counted(runs, 'run')} of {status['template']} measured" + (
        f", {left_out} left out" if left_out else ""
    )
    money = status.get("currency", "")
    candidates = status.get("candidates") or []
    if candidates:
        header = ("", "WORKERS", "EACH", "CLASS", "TIME", "GPU-HOURS", *((money,) if money else ()), "BASIS")
        yield table(header, (_row(one, status, money) for one in candidates[:SHOWN_MAX]))
        yield from _choices(status, money)
    for one in status.get("notes") or []:
        yield f"  {one}"
    guessed = sorted({one["gpuClass"] for one in candidates if one["basis"] == "Guessed"})
    figures = status.get("figures") or {}
    for gpu_class in guessed:
        if (known := figures.get(gpu_class)) is not None:
            yield (
                f"  Guessed of {gpu_class}: {known['tflops']} TFLOPS, {known['bandwidthGBs']} GB/s ({known['source']})."
            )
    for one in status.get("advice") or []:
        yield painted(f"- {one}", Colour.GREEN)


def _choices(status: Mapping[str, Any], money: str) -> Iterator[str]:
    quickest, cheapest = status["quickest"], status["cheapest"]
    by = f"least {money}" if money else "fewest GPU-hours"
    if quickest == cheapest:
        yield f"Quickest, with the {by}: {_shape(quickest)}, {_basis(quickest)}."
        return
    yield f"Quickest: {_shape(quickest)}, {_basis(quickest)}."
    yield f"With the {by}: {_shape(cheapest)}, {_basis(cheapest)}."


def overview(found: Mapping[str, Any], namespace: str) -> str:
    rows = []
    for one in found["items"]:
        status = one["status"]
        quickest, cheapest = status.get("quickest"), status.get("cheapest")
        first = (status.get("advice") or status.get("notes") or [""])[0]
        rows.append(
            (
                one["metadata"]["name"],
                str(status["runs"]),
                f"{_shape(quickest)}, {_basis(quickest)}" if quickest else "-",
                f"{_shape(cheapest)}, {_basis(cheapest)}" if cheapest else "-",
                first,
            )
        )
    if not rows:
        return f"No run of namespace {namespace} is known."
    return table(("JOB", "RUNS", "QUICKEST", "CHEAPEST", "BESIDES"), rows)


def _row(one: _Candidate, status: Mapping[str, Any], money: str) -> tuple[str, ...]:
    mark = "*" if one in (status.get("quickest"), status.get("cheapest")) else ""
    cost = (_money(one.get("costMicros")),) if money else ()
    hours = _range(*(gpu_hours(seconds) for seconds in one["gpuSeconds"]))
    time = _range(*(length(seconds) for seconds in one["seconds"]))
    return mark, str(one["workers"]), one["gpu"], one["gpuClass"], time, hours, *cost, _basis(one)


def _shape(one: _Candidate) -> str:
    return f"{one['workers']} × {one['gpu']} {one['gpuClass']}"


def _basis(one: _Candidate) -> str:
    basis, runs = _BASIS.get(one["basis"], str(one["basis"])), one.get("runs", 0)
    return f"{basis} ({counted(runs, 'run')})" if runs else basis


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def _money(micros: list[int] | None) -> str:
    from cotenant.core.model.formatting import format_cost

    return "?" if micros is None else _range(*(format_cost(one) for one in micros))
