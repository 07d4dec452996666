"""`cotenant ps`: jobs that hold GPUs, jobs that wait with their position and estimated start, jobs that are set
aside.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from cotenant.cli.terminal.cluster_verb import cluster_verb
from cotenant.cli.terminal.connection import connect
from cotenant.cli.terminal.output import about_when, printed, table
from cotenant.cli.terminal.watch import show

HEADER = ("NAME", "STANDING", "QUEUE", "ASKS", "PLACE", "STARTS ABOUT", "REASON", "AGE")
WIDE: Final = ("USER", "NODES", "WOULD START IF")
NODES_SHOWN: Final = 3


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    cluster_verb(
        verbs,
        "ps",
        run,
        "jobs that hold GPUs, wait for them or are set aside, with place in line and start",
        all_namespaces=True,
        watched=True,
    )


def run(args: argparse.Namespace) -> int:
    connection = connect(args)
    within = "" if args.all_namespaces else f"/namespaces/{quote(connection.namespace, safe='')}"

    def answer() -> str:
        found = connection.get(f"{within}/explanations")
        jobs = sorted(found["items"], key=order)
        return printed(
            found,
            args.output,
            lambda: [f"trainingjob.cotenant.dev/{one['metadata']['name']}" for one in jobs],
            lambda wide: as_table(jobs, datetime.now(UTC), wide=wide, namespaces=args.all_namespaces),
        )

    return show(args, answer)


def as_table(jobs: Sequence[Mapping[str, Any]], now: datetime, *, wide: bool, namespaces: bool) -> str:
    header = (("NAMESPACE",) if namespaces else ()) + HEADER + (WIDE if wide else ())
    rows = [
        ((one["metadata"]["namespace"],) if namespaces else ())
        + cells(one, now)
        + (wide_cells(one["status"]) if wide else ())
        for one in jobs
    ]
    if not rows:
        return "No job waits or holds GPUs here."
    return "\n".join([table(header, rows), *aside(jobs, namespaces=namespaces)])


def wide_cells(status: Mapping[str, Any]) -> tuple[str, ...]:
    nodes = status.get("nodes") or []
    shown = ",".join(nodes[:NODES_SHOWN]) + (f" and {len(nodes) - NODES_SHOWN} more" if nodes[NODES_SHOWN:] else "")
    return status.get("user", ""), shown, status.get("wouldStartIf", "")


def aside(jobs: Sequence[Mapping[str, Any]], *, namespaces: bool) -> Iterator[str]:
    """Lines for jobs that neither wait nor hold anything: why, and what brings each back."""
    for one in jobs:
        status, metadata = one["status"], one["metadata"]
        if status.get("returnsIf"):
            name = f"{metadata['namespace']}/{metadata['name']}" if namespaces else metadata["name"]
            message = status.get("message", "").split("\n", 1)[0]
            yield f"{name}: {message}{way_back(one)}"


def way_back(job: Mapping[str, Any]) -> str:
    """What brings a job that is set aside back into the queue, to follow its message. A suspended job's message says
    when, so only the command follows it.
    """
    status = job["status"]
    command = status["returnsIf"].partition(": ")[2] if status["standing"] == "Suspended" else ""
    return f"; {command}" if command else f"; back in line when {status['returnsIf']}"


def order(job: Mapping[str, Any]) -> tuple[int, int, str, str]:
    """Sort key: jobs that hold GPUs, then waiting jobs by position, then jobs that are set aside."""
    status, metadata = job["status"], job["metadata"]
    group = 2 if status.get("returnsIf") else int(status["standing"] == "Waiting")
    return group, status.get("position", 1 << 30), metadata["namespace"], metadata["name"]


def cells(job: Mapping[str, Any], now: datetime) -> tuple[str, ...]:
    status = job["status"]
    start = status.get("estimatedStart")
    return (
        job["metadata"]["name"],
        status["standing"],
        status["queue"],
        status.get("asks", ""),
        str(status.get("position", "")),
        about_when(start, now) if start else "",
        status.get("reason", ""),
        _age(status["submittedAt"], now) if "submittedAt" in status else "",
    )


def _age(since: str, now: datetime) -> str:
    seconds = max(0, int((now - datetime.fromisoformat(since)).total_seconds()))
    unit, name = next(((unit, name) for unit, name in _UNITS if seconds >= 2 * unit), (1, "s"))
    return f"{seconds // unit}{name}"


_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"))
