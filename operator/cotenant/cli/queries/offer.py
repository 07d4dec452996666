"""`cotenant offer`: what jobs of a namespace could get now, by queue and class of GPU."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from cotenant.cli.queries.connection import add_arguments, connect
from cotenant.cli.queries.output import add_format, print_document, table

HEADER = ("QUEUE", "CLASS", "GUARANTEED", "BORROWABLE", "LARGEST GANG", "ON ONE NODE", "LARGEST SHARE")


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("offer", help="what could start now: guaranteed and borrowable GPUs, by class")
    add_arguments(parser)
    add_format(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    connection = connect(args)
    answer = connection.get(f"/namespaces/{quote(connection.namespace, safe='')}/offers")
    if args.output == "name":
        print("\n".join(f"queue.cotenant.dev/{one['metadata']['name']}" for one in answer["items"]))
    elif not print_document(answer, args.output):
        rows = list(cells(answer))
        print(table(HEADER, rows) if rows else f"No queue serves namespace {connection.namespace}.")
        for one in answer["items"]:
            if message := one["status"].get("message"):
                print(f"{one['metadata']['name']}: {message}")
    return 0


def cells(answer: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """A line for each class of each queue."""
    for offer in answer["items"]:
        for one in offer["status"]["classes"]:
            numbers = (one["guaranteed"], one["borrowable"], one["largestGang"], one["onOneNode"])
            yield offer["metadata"]["name"], one["class"], *(str(number) for number in numbers), one["largestShare"]
