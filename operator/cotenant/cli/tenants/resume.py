"""`cotenant resume JOB`: a stopped job waits for a place again and continues from its checkpoint."""

from __future__ import annotations

import argparse

from cotenant.cli.tenants.stop import add, run
from cotenant.cli.terminal.cluster_verb import cluster_verb


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    add(
        cluster_verb(verbs, "resume", run, "let a stopped job wait for a place again and continue"),
        "it runs",
        stops=False,
    )
