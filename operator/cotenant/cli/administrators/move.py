"""`cotenant move JOB --to NODE`, `--off NODE` or `--class C`: a running job saves, leaves, and continues elsewhere.

The operator makes the plan: whether there is a place, what the move costs, which other jobs it touches. The verb writes
an annotation of the job for its running attempt. The operator reserves the new place before it asks the job to leave,
so the job never loses its place. If there is no new place yet, the job keeps running until there is one or the time is
over.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from cotenant import names
from cotenant.cli.errors import EXIT_REFUSED, EXIT_USAGE, UserError
from cotenant.cli.queries.cluster_whatif import touched
from cotenant.cli.tenants.jobs import FINISHED
from cotenant.cli.terminal.clock import clock
from cotenant.cli.terminal.cluster_verb import add_timeout, cluster_verb
from cotenant.cli.terminal.confirmation import agreed
from cotenant.cli.terminal.connection import Connection
from cotenant.cli.terminal.object_names import ObjectName, named
from cotenant.cli.terminal.output import Colour, painted
from cotenant.cli.terminal.watch import looks

Document = Mapping[str, Any]


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = cluster_verb(
        verbs, "move", run, "move a running job: it saves, leaves and continues elsewhere; shows the plan and asks"
    )
    parser.add_argument("job", metavar="JOB", help="NAME, or NAMESPACE/NAME")
    parser.add_argument(
        "--to", action="append", default=[], metavar="NODE", help="move to this node; if repeated: to any of these"
    )
    parser.add_argument(
        "--off", action="append", default=[], metavar="NODE", help="move off this node; if repeated: off all of these"
    )
    parser.add_argument("--class", dest="gpu_class", default="", metavar="CLASS", help="move to GPUs of this class")
    parser.add_argument("--dry-run", action="store_true", help="show the plan, and change nothing")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    add_timeout(parser, 900.0, "give up if the job is not elsewhere after this time (default: 900)")


def run(args: argparse.Namespace) -> int:
    wish = wish_of(args)
    connection, name = named(args, args.job)
    answer = connection.post("/clusterwhatifs", {"kind": "ClusterWhatIf", "spec": {"job": str(name)} | wish})
    print("\n".join(sentences(answer)))
    plan = answer["status"]["move"]
    if args.dry_run or plan["there"]:
        return 0 if plan["fits"] else EXIT_REFUSED
    question = f"Move {name}?" if plan["fits"] else f"Move {name} as soon as there is a place?"
    if not args.yes and not agreed(question):
        return EXIT_REFUSED
    return move(connection, name, wish, args.timeout)


def wish_of(args: argparse.Namespace) -> dict[str, Any]:
    """The place that the flags ask for, in the operator's form. Raises UserError."""
    wish = {"to": args.to, "off": args.off, "class": args.gpu_class}
    wish = {name: value for name, value in wish.items() if value}
    if not wish:
        raise UserError("say where it is to lie: --to NODE, --off NODE or --class CLASS", EXIT_USAGE)
    return wish


def sentences(answer: Document) -> Iterator[str]:
    """The plan in words, one line each."""
    status, plan = answer["status"], answer["status"]["move"]
    job, held = painted(plan["job"], Colour.BOLD), _nodes(plan["from"])
    if plan["fits"]:
        yield f"{job} would leave {held} at once and go on at {painted(_nodes(plan['to']), Colour.GREEN)}, kept for it."
    else:
        yield f"{job} stays on {held}: {painted(plan['message'], Colour.YELLOW)}"
        if plan["there"]:
            return
    yield (
        f"It is asked to save. What it does not save is lost: {plan['unsavedSeconds']} s since its newest checkpoint"
        f" or its start, {float(plan['unsavedGpuSeconds']) / 3600:.2f} GPU-hours."
    )
    yield from touched(status)


def _nodes(nodes: Mapping[str, int]) -> str:
    return ", ".join(f"{node} ({workers})" for node, workers in nodes.items())


def move(connection: Connection, name: ObjectName, wish: dict[str, Any], timeout_s: float) -> int:
    """Ask for the move. Returns 0 when the job runs or starts elsewhere, 1 if it does not in time. The request is
    removed in both cases.
    """
    attempt = _status(connection.read(name.path)).get("attempts", 0)
    until = (clock.now() + timedelta(seconds=timeout_s)).isoformat(timespec="seconds")
    _annotate(connection, name.path, json.dumps({"attempt": attempt, "until": until} | wish))
    print(f"{name}: the operator moves it, for {timeout_s:.0f} s from now; Ctrl-C leaves it at that", flush=True)
    left = False
    for status in map(_status, looks(connection, name.path, timeout_s)):
        if status.get("phase") in FINISHED:
            print(f"{name}: it is over: {status['phase']}")
            return 0
        if status.get("attempts", 0) > attempt:
            nodes = {one["node"]: len(one["ranks"]) for one in (status.get("placement") or {}).get("nodes", ())}
            _annotate(connection, name.path, None)
            print(f"{name}: it is on {_nodes(nodes)}")
            return 0
        if not left and status.get("phase") == "Evicting":
            left = True
            print(f"{name}: {status.get('message', 'asked to save and leave')}", flush=True)
    _annotate(connection, name.path, None)
    print(f"{name}: not moved within {timeout_s:.0f} s; the wish is dropped", file=sys.stderr)
    return EXIT_REFUSED


def _annotate(connection: Connection, path: str, value: str | None) -> None:
    connection.patch(path, {"metadata": {"annotations": {names.ANNOTATION_MOVE: value}}})


def _status(job: Document) -> dict[str, Any]:
    return dict(job.get("status") or {})
