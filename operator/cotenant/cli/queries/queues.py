"""`cotenant queues`: the tree of queues with what each holds; with `-o wide` the arithmetic of its fair share."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from cotenant.cli.terminal.cluster_verb import cluster_verb
from cotenant.cli.terminal.connection import connect
from cotenant.cli.terminal.output import Colour, painted, table
from cotenant.cli.terminal.watch import show_found
from cotenant.sdk.objects.answer_texts import fair_share, percent

HEADER = ("QUEUE", "GUARANTEED", "USED", "BORROWED", "LIMIT", "RUNNING", "WAITING", "SHARE")
BUDGET_HEADER = ("BUDGET LEFT", "ENDS", "RENEWS")


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    cluster_verb(verbs, "queues", run, "show the tree of queues: guaranteed, borrowed, limit, fair share", watched=True)


def run(args: argparse.Namespace) -> int:
    get = partial(connect(args).get, "/queuetrees")
    return show_found(args, get, lambda found, wide: lines(found["items"], wide=wide), "queue")


def lines(queues: Sequence[Mapping[str, Any]], *, wide: bool) -> Iterator[str]:
    if not queues:
        yield "There is no Queue."
    elif any("budget" in one["status"] for one in queues):
        yield table((*HEADER, *BUDGET_HEADER), ((*cells(one), *budget_cells(one)) for one in queues))
    else:
        yield table(HEADER, (cells(one) for one in queues))
    for one in queues:
        if why := one["status"].get("hold"):  # an operator of before says nothing of it
            yield f"{one['metadata']['name']} is held, and none of its jobs starts: {why}"
    if wide:
        yield from (line for one in queues for line in arithmetic(one))


def cells(queue: Mapping[str, Any]) -> tuple[str, ...]:
    status = queue["status"]
    limits = [line["limit"] + (f" {line['class']}" if line["class"] else "") for line in status["quotas"]
              if line["limit"] is not None]  # fmt: skip
    return (
        "  " * status["depth"] + queue["metadata"]["name"],
        status["guaranteed"],
        status["used"],
        status["borrowed"],
        ", ".join(limits) or "-",
        str(status["holding"]),
        str(status["waiting"]),
        "-" if status["broken"] else percent(status["share"]["ppm"]),
    )


def budget_cells(queue: Mapping[str, Any]) -> tuple[str, ...]:
    """What is left of the budget, when it ends at the present use, and when the next period starts."""
    budget = queue["status"].get("budget")
    if budget is None:
        return "-", "-", "-"
    money = budget.get("money")
    left = [f"{budget['left']} GPU-hours"] if budget.get("left") else []
    left += [f"{money['left']} {money.get('currency', '')}".strip()] if money else []
    return ", ".join(left), _day(budget.get("projectedEnd")), _day(budget.get("periodEnd"))


def _day(timestamp: str | None) -> str:
    """A time in UTC, because budget periods are in UTC: `2026-12-01 00:00Z`."""
    return f"{timestamp[:10]} {timestamp[11:16]}Z" if timestamp else "-"


def arithmetic(queue: Mapping[str, Any]) -> Iterator[str]:
    """How the share of one queue is computed, line by line. The largest term decides."""
    status = queue["status"]
    yield ""
    yield painted(queue["metadata"]["name"], Colour.BOLD)
    if status["broken"]:
        yield f"  {status['broken']}"
        return
    for line in status["quotas"]:
        yield f"  {_quota(line)}"
    yield from (f"  {line}" for line in fair_share(status["share"]))


def _quota(line: Mapping[str, Any]) -> str:
    """One quota: guaranteed and existing GPUs, how many are used, how many are borrowed, and the limit."""
    where = " in ".join(part for part in (line["class"] or "any class", line.get("zone")) if part)
    guaranteed, there, used = (float(line[name]) for name in ("guaranteed", "effective", "used"))
    text = f"{where}: guaranteed {guaranteed:g}"
    if there != guaranteed:
        text += f" (of which {there:g} are there)"
    text += f", uses {used:g}: {min(used, there):g} of its own"
    if used > there:
        text += f" + {used - there:g} borrowed"
    return text + (f", may hold {line['limit']}" if line["limit"] is not None else ", may borrow whatever is lent")
