"""`cotenant offer`: what jobs of a namespace could get now, by queue and GPU class."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from cotenant.cli.terminal.cluster_verb import cluster_verb
from cotenant.cli.terminal.connection import connect
from cotenant.cli.terminal.output import table
from cotenant.cli.terminal.watch import show_found
from cotenant.sdk.job_paths import below

HEADER = ("QUEUE", "CLASS", "GUARANTEED", "BORROWABLE", "LARGEST GANG", "ON ONE NODE", "LARGEST SHARE")


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    cluster_verb(
        verbs, "offer", run, "show what could start now: guaranteed and borrowable GPUs by class", watched=True
    )


def run(args: argparse.Namespace) -> int:
    connection = connect(args)
    path = below("", connection.namespace, "offers")
    return show_found(args, lambda: connection.get(path), lambda found, _: lines(found, connection.namespace), "queue")


def lines(answer: Mapping[str, Any], namespace: str) -> Iterator[str]:
    rows = list(cells(answer))
    yield table(HEADER, rows) if rows else f"No queue serves namespace {namespace}."
    for one in answer["items"]:
        if message := one["status"].get("message"):
            yield f"{one['metadata']['name']}: {message}"


def cells(answer: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """One line for each class of each queue."""
    for offer in answer["items"]:
        for one in offer["status"]["classes"]:
            numbers = (one["guaranteed"], one["borrowable"], one["largestGang"], one["onOneNode"])
            yield offer["metadata"]["name"], one["class"], *(str(number) for number in numbers), one["largestShare"]
