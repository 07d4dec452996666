"""`cotenant cost`: GPU-hours that runs held, by job, queue, user or class; also in money if prices are given."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from cotenant.cli.errors import EXIT_USAGE, UserError
from cotenant.cli.tenants.records import HOUR, LISTED_MAX, Run, gpu_hours, run_of, runs_of
from cotenant.cli.terminal.clock import clock
from cotenant.cli.terminal.cluster_verb import cluster_verb, time
from cotenant.cli.terminal.connection import Connection, connect
from cotenant.cli.terminal.object_names import named
from cotenant.cli.terminal.output import printed, table
from cotenant.cli.terminal.watch import show
from cotenant.sdk.job_paths import object_path

BY: Final = ("job", "queue", "user", "class", "namespace")


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = cluster_verb(
        verbs, "cost", run, "show the GPU-hours that runs held, and their cost", all_namespaces=True, watched=True
    )
    parser.add_argument("job", metavar="JOB", nargs="?", help="only this job: NAME, or NAMESPACE/NAME")
    parser.add_argument("--by", choices=BY, default="job", help="what to add up by (default: each job)")
    parser.add_argument(
        "--since",
        type=time,
        default="30d",
        metavar="TIME",
        help="only runs that ended within this time: 12h, 7d, 4w (default: 30d)",
    )
    parser.add_argument(
        "--price",
        action="append",
        default=[],
        metavar="CLASS=AMOUNT",
        help="price of a GPU-hour of this class: H100=2.50, *=1; may be repeated",
    )


def run(args: argparse.Namespace) -> int:
    prices = prices_of(args.price)
    job = named(args, args.job) if args.job else None
    connection = job[0] if job else connect(args)

    def answer() -> str:
        if job:
            runs: Sequence[Run] = [run_of(connection, job[1])]
        else:
            found = runs_of(connection, everywhere=args.all_namespaces, most=LISTED_MAX)["items"]
            after = clock.now() - args.since
            runs = [one for one in found if _ended(one) >= after]
        return answered(args, connection, list(added_up(runs, args.by, prices)), prices)

    return show(args, answer)


def answered(
    args: argparse.Namespace, connection: Connection, lines: Sequence[CostLine], prices: Mapping[str, Decimal]
) -> str:
    document = {"kind": "List", "apiVersion": "v1", "items": [line.to_document() for line in lines]}

    def shown(_: object) -> str:
        left = "" if args.job or args.all_namespaces else budgets_of(connection)
        return as_table(lines, args.by, prices) + left

    return printed(document, args.output, lambda: [line.name for line in lines], shown)


@dataclass(frozen=True, slots=True)
class CostLine:
    name: str
    runs: int
    gpu_seconds: int
    not_finished: int
    """The GPU-seconds of runs that did not succeed. They are part of the total."""
    micros: int | None
    """The cost in micro-units of the currency; None if a class has no price."""

    def to_document(self) -> dict[str, Any]:
        from cotenant.core.model.formatting import format_money

        priced = {} if self.micros is None else {"price": format_money(self.micros)}
        seconds = {"gpuSeconds": self.gpu_seconds, "gpuSecondsNotFinished": self.not_finished}
        return {"name": self.name, "runs": self.runs, **seconds, **priced}


def added_up(runs: Iterable[Run], by: str, prices: Mapping[str, Decimal]) -> Iterator[CostLine]:
    """One line per key. The largest comes first."""
    groups: dict[str, list[Run]] = {}
    for one in runs:
        groups.setdefault(_group(one, by), []).append(one)
    lines = [_line(name, members, prices) for name, members in groups.items()]
    yield from sorted(lines, key=lambda line: (-line.gpu_seconds, line.name))


def _line(name: str, runs: Sequence[Run], prices: Mapping[str, Decimal]) -> CostLine:
    each = [(one["status"]["gpuSeconds"], one["status"].get("gpuClass", ""), one["status"]["outcome"]) for one in runs]
    rates = [prices.get(gpu_class, prices.get("*")) for seconds, gpu_class, _ in each if seconds]
    micros = None
    if prices and None not in rates:
        costs = (seconds * prices.get(gpu_class, prices.get("*", Decimal(0))) for seconds, gpu_class, _ in each)
        micros = int(sum(costs, Decimal(0)) * 1_000_000 / HOUR)
    return CostLine(
        name,
        len(runs),
        sum(seconds for seconds, _, _ in each),
        sum(seconds for seconds, _, outcome in each if outcome in {"Failed", "Deleted"}),
        micros,
    )


def as_table(lines: Sequence[CostLine], by: str, prices: Mapping[str, Decimal]) -> str:
    if not lines:
        return "No run ended in this time."
    total = CostLine(
        "all",
        sum(line.runs for line in lines),
        sum(line.gpu_seconds for line in lines),
        sum(line.not_finished for line in lines),
        None if None in [line.micros for line in lines] else sum(line.micros or 0 for line in lines),
    )
    header = (by.upper(), "RUNS", "GPU-HOURS", "UNSUCCESSFUL", *(("PRICE",) if prices else ()))
    shown = [*lines, total] if len(lines) > 1 else lines
    return table(header, ((line.name, str(line.runs), gpu_hours(line.gpu_seconds), gpu_hours(line.not_finished),
                           *((_shown(line.micros),) if prices else ())) for line in shown))  # fmt: skip


def budgets_of(connection: Connection) -> str:
    """One line for each queue of the namespace with a budget: how much is left, and until when."""
    try:
        found = connection.read(object_path("localqueues", connection.namespace))["items"]
    except UserError:  # an operator of before, or somebody who may see runs alone
        return ""
    lines = [line for one in found if (line := _budget_line(one))]
    return "\n\n" + "\n".join(lines) if lines else ""


def _budget_line(local_queue: Mapping[str, Any]) -> str:
    budget = (local_queue.get("status") or {}).get("budget")
    if not budget:
        return ""
    amounts = {" GPU-hours": budget.get("left"), "": budget.get("moneyLeft")}
    left = " and ".join(f"{amount}{unit}" for unit, amount in amounts.items() if amount)
    end = f"; at what runs now it ends on {budget['projectedEnd'][:10]}" if budget.get("projectedEnd") else ""
    until = f" until {budget['periodEnd'][:10]}" if budget.get("periodEnd") else ""
    return f"Queue {local_queue['metadata']['name']} has {left} left{until} ({budget.get('burnDown', '')}){end}."


def prices_of(texts: Iterable[str]) -> dict[str, Decimal]:
    """Class → price of an hour. Raises UserError."""
    found: dict[str, Decimal] = {}
    for text in texts:
        name, _, amount = text.partition("=")
        try:
            price = Decimal(amount)
        except InvalidOperation:
            price = Decimal(-1)
        if not name or not price.is_finite() or price < 0:
            raise UserError(f"--price {text}: give CLASS=AMOUNT, such as H100=2.50, or *=1 for any class", EXIT_USAGE)
        found[name] = price
    return found


def _ended(run: Run) -> datetime:
    text = run["status"].get("finishedAt", "")
    return datetime.fromisoformat(text) if text else clock.now()


def _group(run: Run, by: str) -> str:
    metadata, status = run["metadata"], run["status"]
    keys = {
        "job": f"{metadata['namespace']}/{metadata['name']}",
        "queue": status["queue"],
        "user": status.get("user", ""),
        "class": status.get("gpuClass", ""),
        "namespace": metadata["namespace"],
    }
    return keys[by] or "(unknown)"


def _shown(micros: int | None) -> str:
    from cotenant.core.model.formatting import format_cost

    return "?" if micros is None else format_cost(micros)
