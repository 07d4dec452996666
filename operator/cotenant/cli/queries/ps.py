"""`cotenant ps`: jobs that hold GPUs, jobs that wait with their position and estimated start, jobs that are set
aside.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from cotenant.cli.queries.why import QUIET
from cotenant.cli.terminal.clock import clock
from cotenant.cli.terminal.cluster_verb import cluster_verb
from cotenant.cli.terminal.connection import connect
from cotenant.cli.terminal.output import about_when, object_table
from cotenant.cli.terminal.watch import show_found
from cotenant.sdk.job_paths import below

HEADER = ("NAME", "STANDING", "QUEUE", "ASKS", "PLACE", "STARTS ABOUT", "REASON", "AGE")
WIDE: Final = (
    "USER",
    "PRIORITY",
    "ROLES",
    "WAITED",
    "RAN",
    "TIME LEFT",
    "IDLE GPUS",
    "GPU MEMORY",
    "NODES",
    "WOULD START IF",
)
SPANS: Final = ("waitedSeconds", "ranSeconds", "leftSeconds")
NODES_SHOWN: Final = 3
GIB: Final = 1024


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = cluster_verb(
        verbs,
        "ps",
        run,
        "list jobs: those that hold GPUs, wait or are set aside, with position and estimated start",
        all_namespaces=True,
        watched=True,
    )
    parser.add_argument("--queue", metavar="QUEUE", help="only jobs of this queue")
    parser.add_argument("--user", metavar="USER", help="only jobs of this user, as shown by -o wide")
    parser.add_argument("--waiting", action="store_true", help="only waiting jobs")


def chosen(status: Mapping[str, Any], args: argparse.Namespace) -> bool:
    """True if the flags leave this job in the list."""
    of_queue = args.queue in {None, status["queue"]}
    return (
        of_queue
        and args.user in {None, status.get("user", "")}
        and (status["standing"] == "Waiting" or not args.waiting)
    )


def run(args: argparse.Namespace) -> int:
    connection = connect(args)
    everywhere: bool = args.all_namespaces
    path = below("", "" if everywhere else connection.namespace, "explanations")

    def read() -> dict[str, Any]:
        found = connection.get(path)
        return found | {"items": sorted((one for one in found["items"] if chosen(one["status"], args)), key=order)}

    def text(found: Mapping[str, Any], wide: bool) -> list[str]:
        return [as_table(found["items"], clock.now(), wide=wide, namespaces=everywhere)]

    return show_found(args, read, text, "trainingjob")


def as_table(jobs: Sequence[Mapping[str, Any]], now: datetime, *, wide: bool, namespaces: bool) -> str:
    if not jobs:
        return "No job waits or holds GPUs here."
    shown = object_table(
        HEADER + (WIDE if wide else ()),
        jobs,
        lambda one: cells(one, now) + (wide_cells(one["status"]) if wide else ()),
        namespaces=namespaces,
    )
    return "\n".join([shown, *aside(jobs, namespaces=namespaces)])


def wide_cells(status: Mapping[str, Any]) -> tuple[str, ...]:
    nodes = status.get("nodes") or []
    shown = ",".join(nodes[:NODES_SHOWN]) + (f" and {len(nodes) - NODES_SHOWN} more" if nodes[NODES_SHOWN:] else "")
    times = (_length(status[name]) if name in status else "" for name in SPANS)
    more = (*times, *_use(status.get("use") or {}), shown, status.get("wouldStartIf", ""))
    return status.get("user", ""), str(status.get("priority", "")), _roles(status), *more


def _roles(status: Mapping[str, Any]) -> str:
    """`chief, 3 workers, evaluator (Restarting)`; empty if all ranks are alike and nothing runs beside them."""
    roles = status.get("roles") or {}
    if set(roles) <= {"worker"}:
        return ""
    shown = [
        role.replace("-", " ") if count == 1 else f"{count} {role.replace('-', ' ')}s" for role, count in roles.items()
    ]
    state = status.get("evaluator", "")
    return ", ".join(shown) + (f" ({state})" if state not in ("", "Running") else "")


def _use(use: Mapping[str, Any]) -> tuple[str, str]:
    """GPUs on which nothing computes now; memory of the fullest."""
    idle = f"{use['idleGPUs']} of {use['measuredGPUs']}" if "idleGPUs" in use else ""
    held = use.get("memoryHeldMiB")
    return idle, f"{use['memoryPeakMiB'] / GIB:.1f} of {held / GIB:.1f} GiB" if held else ""


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
        _reason(status),
        _age(status["submittedAt"], now) if "submittedAt" in status else "",
    )


def _reason(status: Mapping[str, Any]) -> str:
    """What keeps the pods of its attempt from running, or why it waits or is set aside."""
    of_attempt = (status.get("attempt") or {}).get("reason")
    return str((None if of_attempt in QUIET else of_attempt) or status.get("reason") or "")


def _age(since: str, now: datetime) -> str:
    return _length(max(0, int((now - datetime.fromisoformat(since)).total_seconds())))


def _length(seconds: int) -> str:
    unit, name = next(((unit, name) for unit, name in _UNITS if seconds >= 2 * unit), (1, "s"))
    return f"{seconds // unit}{name}"


_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"))
