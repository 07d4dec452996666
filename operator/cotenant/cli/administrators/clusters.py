"""`cotenant clusters`: the other clusters to which queues hand jobs: whether each answers, and what it runs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

from cotenant.cli.terminal.clock import clock
from cotenant.cli.terminal.cluster_verb import cluster_verb
from cotenant.cli.terminal.connection import connect
from cotenant.cli.terminal.output import Colour, painted, table
from cotenant.cli.terminal.watch import show_found
from cotenant.sdk.job_paths import object_path

HEADER: Final = ("CLUSTER", "REACHABLE", "JOBS", "RUNNING", "SEEN", "SERVER")


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    cluster_verb(
        verbs, "clusters", run, "list the other clusters that queues hand jobs to, and the jobs there", watched=True
    )


def run(args: argparse.Namespace) -> int:
    read = partial(connect(args).read, object_path("remoteclusters"))
    return show_found(args, read, lambda found, _: lines(found["items"], clock.now()), "remotecluster")


def lines(clusters: Sequence[Mapping[str, Any]], now: datetime) -> Iterator[str]:
    """The table, then the problems of each cluster."""
    ordered = sorted(clusters, key=lambda one: str(one["metadata"]["name"]))
    yield table(HEADER, [cells(one, now) for one in ordered]) if ordered else "There is no RemoteCluster."
    for one in ordered:
        status = one.get("status") or {}
        if status.get("reachable") != "True":
            message = status.get("message") or "the operator has not looked at it yet"
            yield f"{one['metadata']['name']}: {message}"


def cells(cluster: Mapping[str, Any], now: datetime) -> tuple[str, ...]:
    status = cluster.get("status") or {}
    reachable = status.get("reachable") or "Unknown"
    seen = status.get("lastSeen")
    minutes = max(0, int((now - datetime.fromisoformat(seen)).total_seconds() // 60)) if seen else None
    return (
        cluster["metadata"]["name"],
        painted(reachable, Colour.GREEN if reachable == "True" else Colour.RED),
        str(status.get("jobs", 0)),
        str(status.get("running", 0)),
        "never" if minutes is None else f"{minutes} min ago" if minutes else "now",
        status.get("server", ""),
    )
