"""`cotenant ps`: jobs that hold GPUs or wait for them, with place in line and start."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from cotenant.cli.queries.connection import add_arguments, connect
from cotenant.cli.queries.output import about_when, add_format, print_document, table

HEADER = ("NAME", "STANDING", "QUEUE", "ASKS", "PLACE", "STARTS ABOUT", "REASON", "AGE")


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("ps", help="jobs that hold GPUs or wait for them, with place in line and start")
    add_arguments(parser, all_namespaces=True)
    add_format(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    connection = connect(args)
    within = "" if args.all_namespaces else f"/namespaces/{quote(connection.namespace, safe='')}"
    answer = connection.get(f"{within}/explanations")
    jobs = sorted(answer["items"], key=_order)
    if args.output == "name":
        print("\n".join(f"trainingjob.cotenant.dev/{one['metadata']['name']}" for one in jobs))
    elif not print_document(answer, args.output):
        now, wide = datetime.now(UTC), args.output == "wide"
        header = (("NAMESPACE",) if args.all_namespaces else ()) + HEADER + (("WOULD START IF",) if wide else ())
        rows = [
            ((one["metadata"]["namespace"],) if args.all_namespaces else ())
            + cells(one, now)
            + ((one["status"].get("wouldStartIf", ""),) if wide else ())
            for one in jobs
        ]
        print(table(header, rows) if rows else "No job waits or holds GPUs here.")
    return 0


def _order(job: Mapping[str, Any]) -> tuple[bool, int, str, str]:
    """Who holds first, then the line."""
    status, metadata = job["status"], job["metadata"]
    return status["standing"] == "Waiting", status.get("position", 1 << 30), metadata["namespace"], metadata["name"]


def cells(job: Mapping[str, Any], now: datetime) -> tuple[str, ...]:
    status = job["status"]
    start = status.get("estimatedStart")
    return (
        job["metadata"]["name"],
        status["standing"],
        status["queue"],
        status["asks"],
        str(status.get("position", "")),
        about_when(start, now) if start else "",
        status.get("reason", ""),
        _age(status["submittedAt"], now),
    )


def _age(since: str, now: datetime) -> str:
    seconds = max(0, int((now - datetime.fromisoformat(since)).total_seconds()))
    unit, name = next(((unit, name) for unit, name in _UNITS if seconds >= 2 * unit), (1, "s"))
    return f"{seconds // unit}{name}"


_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"))
