"""`cotenant showback`: what was held in a month, used, idle or lost, by whom, and its cost; also as FOCUS."""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from cotenant.cli.errors import EXIT_USAGE, UserError
from cotenant.cli.tenants.records import gpu_hours
from cotenant.cli.terminal.cluster_verb import cluster_verb
from cotenant.cli.terminal.connection import Connection, connect
from cotenant.cli.terminal.output import as_document, table
from cotenant.sdk.job_paths import below

if TYPE_CHECKING:
    from cotenant.decision_log.showback.report import PricedCharge, ShowbackLine

BY: Final = ("class", "job", "namespace", "queue", "user")
"""The keys of `report.BY`. The one-file plugin cannot import that module."""
FORMS: Final = ("text", "json", "yaml", "csv")
COLUMNS: Final = ("name", "held", "used", "idle", "lostToPreemption", "lostToFaults", "cost", "unpriced")


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = cluster_verb(
        verbs, "showback", run, "show what was held, used, idle and lost in a month, and its cost", all_namespaces=True
    )
    parser.add_argument("--month", metavar="YYYY-MM", help="the month, in UTC (default: this one)")
    parser.add_argument("--by", choices=BY, default="queue", help="what to add up by (default: queue)")
    parser.add_argument(
        "--format", choices=("lines", "focus"), default="lines", help="lines: a table; focus: a FOCUS data set, as CSV"
    )
    parser.add_argument(
        "--cluster", default="cotenant", metavar="NAME", help="name of the biller in FOCUS (default: cotenant)"
    )
    parser.add_argument("-o", "--output", choices=FORMS, default="text", help="form of the output")


@dataclass(frozen=True, slots=True)
class ShowbackAnswer:
    parts: Sequence[PricedCharge]
    currency: str
    truncated: bool


def run(args: argparse.Namespace) -> int:
    since, until = month_of(args.month) if args.month else (None, None)
    found = asked(connect(args), everywhere=args.all_namespaces, since=since, until=until)
    if args.format == "focus":
        from cotenant.decision_log.showback import focus

        issuer = focus.Issuer(cluster=args.cluster, currency=found.currency or "XXX")
        print(focus.to_csv(found.parts, issuer), end="")
    else:
        print(shown(found, args.by, args.output).rstrip("\n"))
    if found.truncated:
        raise UserError("the answer was cut because it is too long: ask for one namespace at a time")
    return 0


def asked(connection: Connection, *, everywhere: bool, since: int | None, until: int | None) -> ShowbackAnswer:
    """The operator's records. Raises UserError."""
    from cotenant.decision_log.showback.showback_documents import priced_charge

    path = below("", "" if everywhere else connection.namespace, "showbacks")
    query = "" if since is None else f"?since={since}&until={until}"
    found = connection.get(path + query)
    metadata = found["metadata"]
    parts = [priced_charge(one) for one in found["items"]]
    return ShowbackAnswer(parts, metadata["currency"], metadata["truncated"])


def shown(found: ShowbackAnswer, by: str, form: str) -> str:
    from cotenant.decision_log.showback.report import added_up, total

    lines = added_up(found.parts, by)
    if form == "csv":
        return _csv(lines, found.currency)
    if form == "text":
        return as_table(lines, total(found.parts), by, found.currency)
    items = [_document(line, found.currency) for line in lines]
    return as_document({"kind": "List", "apiVersion": "v1", "items": items}, form)


def as_table(lines: Sequence[ShowbackLine], whole: ShowbackLine, by: str, currency: str) -> str:
    """The table: GPU-hours and money. `?` stands for a class without a price."""
    if not lines:
        return "Nothing was held in this time."
    money = (f"COST ({currency})",) if currency else ()
    header = (by.upper(), "GPU-HOURS", "USED", "IDLE", "LOST TO PREEMPTION", "LOST TO FAULTS", *money)
    every = [*lines, whole] if len(lines) > 1 else lines
    return table(header, (_cells(line, bool(currency)) for line in every))


def _cells(line: ShowbackLine, money: bool) -> tuple[str, ...]:
    from cotenant.core.model.formatting import format_cost

    amounts = (line.held, line.used, line.idle, line.lost_to_preemption, line.lost_to_faults)
    cost = format_cost(line.micros) + (" + ?" if line.unpriced else "")
    return (line.name, *(_hours(amount) for amount in amounts), *((cost,) if money else ()))


def _hours(amount: int) -> str:
    from cotenant.decision_log.showback.prices import HOUR

    return gpu_hours(amount, HOUR)


def _document(line: ShowbackLine, currency: str) -> dict[str, Any]:
    values = (line.name, line.held, line.used, line.idle, line.lost_to_preemption, line.lost_to_faults)
    return dict(zip(COLUMNS, (*values, line.micros, line.unpriced), strict=True)) | {"currency": currency}


def _csv(lines: Sequence[ShowbackLine], currency: str) -> str:
    """The exact amounts: milli-GPU × seconds, and millionths of the currency."""
    text = io.StringIO()
    writer = csv.DictWriter(text, (*COLUMNS, "currency"), lineterminator="\n")
    writer.writeheader()
    writer.writerows(_document(line, currency) for line in lines)
    return text.getvalue()


def month_of(text: str) -> tuple[int, int]:
    """Start and end of the month, in Unix seconds. Raises UserError."""
    from cotenant.core.model.objects import Period
    from cotenant.decision_log.showback.periods import end_of

    try:
        since = int(datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC).timestamp())
    except ValueError:
        raise UserError(f"--month {text}: give a year and a month, such as 2026-11", EXIT_USAGE) from None
    return since, end_of(Period.MONTH, since)
