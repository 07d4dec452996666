"""`cotenant queues`: the tree of queues with what each holds, and with `-o wide` the arithmetic of its fair share."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from cotenant.cli.queries.connection import add_arguments, connect
from cotenant.cli.queries.output import Colour, add_format, painted, print_document, table

HEADER = ("QUEUE", "GUARANTEED", "USED", "BORROWED", "LIMIT", "RUNNING", "WAITING", "SHARE")


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("queues", help="the tree of queues: guaranteed, borrowed, limit, fair share")
    add_arguments(parser)
    add_format(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    answer = connect(args).get("/queuetrees")
    if args.output == "name":
        print("\n".join(f"queue.cotenant.dev/{one['metadata']['name']}" for one in answer["items"]))
    elif not print_document(answer, args.output):
        print(table(HEADER, (cells(one) for one in answer["items"])))
        if args.output == "wide":
            print("\n".join(line for one in answer["items"] for line in arithmetic(one)))
    return 0


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
        "-" if status["broken"] else _percent(status["share"]["ppm"]),
    )


def arithmetic(queue: Mapping[str, Any]) -> Iterator[str]:
    """How the share of one queue comes about, line by line: the largest term decides."""
    status, share = queue["status"], queue["status"]["share"]
    yield ""
    yield painted(queue["metadata"]["name"], Colour.BOLD)
    if status["broken"]:
        yield f"  {status['broken']}"
        return
    for one in share["terms"]:
        of = one["class"] or "all GPUs"
        yield f"  borrows {one['borrowed']} of {one['capacity']} ({of}): {_percent(one['ppm'])}"
    most = max((one["ppm"] for one in share["terms"]), default=0)
    yield f"  {_percent(most)} + {_percent(share['pastPpm'])} by past borrowing, / weight {share['weight']}"
    yield f"  = {_percent(share['ppm'])}: the lower share goes first"


def _percent(ppm: int) -> str:
    return f"{ppm / 10_000:.2f} %" if ppm < 1_000_000_000 else "after all others (weight 0)"
