"""`cotenant nodes`: one line per GPU node: whether it takes work, what is held, idle and ill, and why.

`cotenant nodes --needed`: how many more nodes of each kind would start the jobs that wait, as the operator decides.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

from cotenant.cli.administrators.gpu_shares import WHOLE, gpu_views, is_silent, silent_s
from cotenant.cli.administrators.gpus import GPU_NODES, as_cordoned
from cotenant.cli.administrators.health.runtime_failures import RUNTIME_FAILING, failing_nodes
from cotenant.cli.errors import UserError
from cotenant.cli.terminal.clock import clock
from cotenant.cli.terminal.cluster_verb import cluster_verb
from cotenant.cli.terminal.connection import Connection, connect
from cotenant.cli.terminal.output import Colour, counted, painted, table
from cotenant.cli.terminal.watch import show_found

HEADER: Final = ("NODE", "STATE", "GPUS", "HELD", "IDLE", "ILL", "JOBS", "HEALTH", "ISOLATION")
WIDE: Final = ("DRIVER", "TOOLKIT", "SEEN")
NEEDED: Final = ("LIKE", "GPUS", "ZONE", "MORE NODES", "WOULD START")


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = cluster_verb(
        verbs, "nodes", run, "list nodes with GPUs: which take work, what is held, idle and ill", watched=True
    )
    parser.add_argument(
        "--needed", action="store_true", help="show how many more nodes of each kind would start the waiting jobs"
    )


def run(args: argparse.Namespace) -> int:
    connection = connect(args)

    def listed(found: Mapping[str, Any], wide: bool) -> Iterator[str]:
        nodes, now = as_cordoned(connection, found["items"]), clock.now()
        return lines(nodes, now, _failing(connection, now), wide=wide)

    if args.needed:
        return show_found(args, partial(connection.get, "/nodeneeds"), lambda found, _: needs(found))
    return show_found(args, partial(connection.read, GPU_NODES), listed, "gpunode")


def _failing(connection: Connection, now: datetime) -> dict[str, str]:
    """Nodes that the operator keeps jobs off; none for a caller who may not list Events."""
    try:
        return failing_nodes(connection.read(RUNTIME_FAILING)["items"], now)
    except UserError:
        return {}


def needs(found: Mapping[str, Any]) -> Iterator[str]:
    """The kinds of nodes that would start something, and why the other jobs would still wait."""
    items, status = found["items"], found["status"]
    if not status["waiting"]:
        yield "No job waits."
        return
    if items:
        yield table(NEEDED, [_need_cells(one, status["waiting"]) for one in items])
    unhelped = ", ".join(f"{counted(number, 'job')} ({reason})" for reason, number in status["unhelped"].items())
    if unhelped:
        yield f"More nodes would not start: {unhelped}."
    if status["untriedKinds"]:
        yield f"{counted(status['untriedKinds'], 'kind')} of nodes not tried: the time was over."
    if items:
        first = items[0]
        add = f"kubectl cotenant whatif node {first['metadata']['name']} add {first['status']['nodes']}"
        yield f"Which jobs: {add}"


def _need_cells(one: Mapping[str, Any], waiting: int) -> tuple[str, ...]:
    status = one["status"]
    return (
        one["metadata"]["name"],
        " + ".join(f"{number} × {gpu_class}" for gpu_class, number in status["gpus"].items()),
        status.get("zone", ""),
        f"{'' if status['isLeast'] else 'at most '}{status['nodes']}",
        f"{status['starts']} of {counted(waiting, 'job')}",
    )


def lines(
    nodes: Sequence[Mapping[str, Any]], now: datetime, failing: Mapping[str, str], *, wide: bool
) -> Iterator[str]:
    """The table, then the problems of each node, as `sinfo -R` shows them. `failing`: node → why the operator keeps
    jobs off it.
    """
    ordered = sorted(nodes, key=lambda one: str(one["metadata"]["name"]))
    rows = [cells(one, now, wide=wide) for one in ordered]
    yield table((*HEADER, *WIDE) if wide else HEADER, rows) if rows else "There are no nodes with GPUs."
    for node in ordered:
        name = node["metadata"]["name"]
        yield from (f"{name}: {why}" for why in (*reasons(node, now), *filter(None, [failing.get(name)])))


def cells(node: Mapping[str, Any], now: datetime, *, wide: bool) -> tuple[str, ...]:
    status = node.get("status") or {}
    gpus = list(gpu_views([node]))
    seen = silent_s(node, now)
    state = "Silent" if is_silent(node, now) else status.get("node") or "Ready"
    row = (
        node["metadata"]["name"],
        painted(state, Colour.GREEN if state == "Ready" else Colour.YELLOW),
        status.get("summary", ""),
        f"{sum(one.held_milli for one in gpus) / WHOLE:g}",
        str(sum(one.is_idle for one in gpus)),
        str(sum(not one.healthy for one in gpus)),
        str(len({share.job for one in gpus for share in one.shares})),
        status.get("health", ""),
        status.get("isolation", ""),
    )
    if not wide:
        return row
    return (
        *row,
        status.get("driverVersion", ""),
        status.get("toolkitVersion", ""),
        "never" if seen is None else f"{seen:.0f} s ago",
    )


def reasons(node: Mapping[str, Any], now: datetime) -> Iterator[str]:
    """Why the node does not take all the work that it could, one clause each."""
    status = node.get("status") or {}
    if is_silent(node, now):
        seen = silent_s(node, now)
        yield "its agent has not been heard" + ("" if seen is None else f" for {seen:.0f} s")
    if status.get("node") == "Tainted":
        yield "the Node has a taint that jobs do not tolerate: none starts there (kubectl cotenant doctor names it)"
    elif status.get("node") not in {None, "", "Ready"}:
        yield f"the Node is {status['node']}"
    for gpu in gpu_views([node]):
        if not gpu.healthy:
            yield f"GPU {gpu.index} is not handed out: {gpu.health or 'ill'}"
        if gpu.strangers:
            yield f"GPU {gpu.index} is used by somebody without a grant"
    for condition in status.get("conditions") or ():
        if condition.get("status") == "True":
            yield f"{condition['type']}: {condition.get('message', '')}"
