"""`cotenant audit`: idle holders, guarantees that are unused or not backed by GPUs, starved borrowers, queues that are
not there; a command for each.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final

from cotenant.cli.administrators.audit_findings import (
    AuditFinding,
    excess_guarantees,
    idle_holders,
    missing_queues,
    starved_borrowers,
    unused_guarantees,
)
from cotenant.cli.administrators.gpu_shares import counted_gpus
from cotenant.cli.administrators.gpus import GPU_NODES, gpus_now
from cotenant.cli.errors import EXIT_FORBIDDEN, EXIT_NOT_FOUND, EXIT_UNAVAILABLE, UserError
from cotenant.cli.tenants.jobs import made_by
from cotenant.cli.tenants.records import run_of
from cotenant.cli.terminal.clock import clock
from cotenant.cli.terminal.cluster_verb import cluster_verb
from cotenant.cli.terminal.connection import Connection, connect
from cotenant.cli.terminal.object_names import ObjectName
from cotenant.cli.terminal.output import Colour, painted, printed
from cotenant.cli.terminal.watch import show
from cotenant.sdk.job_paths import object_path

TITLES: Final = {
    "IdleHolder": "Hold GPUs and compute nothing",
    "UnusedGuarantee": "Guaranteed and not used",
    "ExcessGuarantee": "Guaranteed beyond what there is",
    "StarvedBorrower": "Wait for long beyond their guarantee",
    "MissingQueue": "Queues that are not there, and that jobs use",
}


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = cluster_verb(
        verbs,
        "audit",
        run,
        "find idle holders, unused or unbacked guarantees and starved queues, each with a patch",
        watched=True,
    )
    parser.add_argument(
        "--starved",
        type=float,
        default=6.0,
        metavar="HOURS",
        help="a job that has waited longer than this starves (default: 6)",
    )


def run(args: argparse.Namespace) -> int:
    connection = connect(args)

    def answer() -> str:
        found, missing = findings(connection, args.starved * 3600)
        document = {"kind": "AuditReport", "findings": [asdict(one) for one in found], "notLookedAt": missing}
        return printed(
            document, args.output, lambda: [one.subject for one in found], lambda _: "\n".join(lines(found, missing))
        )

    return show(args, answer)


def findings(
    connection: Connection, starved_s: float, now: datetime | None = None
) -> tuple[list[AuditFinding], list[str]]:
    """The findings, and the checks that could not be made with the reason of each."""
    missing: list[str] = []
    queues = {one["metadata"]["name"]: one for one in connection.read(object_path("queues"))["items"]}
    tree = connection.get("/queuetrees")["items"]
    jobs = connection.get("/explanations")["items"]
    now = now or clock.now()
    gpus = gpus_now(connection, connection.read(GPU_NODES)["items"], now)
    try:
        lately = {one["status"].get("queue", "") for one in connection.get("/runs")["items"]}
    except UserError as error:
        if error.exit_code not in {EXIT_FORBIDDEN, EXIT_NOT_FOUND, EXIT_UNAVAILABLE}:
            raise
        lately = set()
        missing.append(f"runs that are over: {error}")

    def use_of(job: str) -> dict[str, Any] | None:
        try:
            return dict(run_of(connection, ObjectName(*job.split("/", 1)))["status"].get("use") or {})
        except UserError:
            return None

    def session_queue_of(job: str) -> str:
        try:
            found = connection.read(ObjectName(*job.split("/", 1)).path)
        except UserError:
            return ""
        return str(found["spec"]["queue"]) if made_by(found, "Session") else ""

    if simulated := sum(one.is_simulated for one in gpus):
        missing.append(f"use of {counted_gpus(simulated)}: simulated, so nothing computes on them")
    found = [
        *idle_holders(gpus, use_of, session_queue_of),
        *unused_guarantees(tree, queues, lately),
        *excess_guarantees(tree, queues, gpus),
        *starved_borrowers(tree, queues, jobs, now, starved_s),
        *missing_queues(jobs, queues, gpus),
    ]
    return found, missing


def lines(found: Sequence[AuditFinding], missing: Sequence[str]) -> Iterator[str]:
    """The findings by kind. Those about the most GPUs come first."""
    for kind, title in TITLES.items():
        of_kind = sorted((one for one in found if one.kind == kind), key=lambda one: (-one.gpus, one.subject))
        if of_kind:
            yield painted(f"{title} ({counted_gpus(sum(one.gpus for one in of_kind))})", Colour.BOLD)
        for one in of_kind:
            yield f"  {one.subject} {one.message}"
            yield f"    {one.patch}"
    if not found:
        yield "Nothing found."
    yield from (f"Not looked at: {one}" for one in missing)
