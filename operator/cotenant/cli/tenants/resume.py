"""`cotenant resume JOB`: a stopped job waits for a place again and continues from its checkpoint."""

from __future__ import annotations

import argparse

from cotenant.cli.errors import EXIT_REFUSED, UserError
from cotenant.cli.tenants.jobs import (
    add_wait,
    named,
    phase_of,
    refuse_finished,
    refuse_session,
    suspend,
    suspend_sweep,
    wait_for,
)
from cotenant.cli.terminal.cluster_verb import cluster_verb
from cotenant.cli.terminal.connection import is_of


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = cluster_verb(verbs, "resume", run, "let a job that was stopped go on")
    parser.add_argument("jobs", metavar="JOB", nargs="+", help="NAME, or NAMESPACE/NAME; sw/NAME of a whole sweep")
    add_wait(parser, "it runs")


def run(args: argparse.Namespace) -> int:
    for text in args.jobs:
        if is_of("sweep", text):
            suspend_sweep(args, text, False)
            continue
        connection, name = named(args, text)
        job = connection.read(name.path)
        refuse_session(job, name, "resume")
        refuse_finished(job, name, f"`kubectl cotenant retry {name}` runs it again")
        if not (job.get("spec") or {}).get("suspend"):
            print(f"{name} was not stopped: it is {phase_of(job)}.")
        else:
            suspend(connection, name, job, False)
            print(f"{name} waits for its place again.", flush=True)
        if args.wait:
            there = wait_for(connection, name, ("Running", "Succeeded", "Failed"), args.timeout)
            if phase_of(there) == "Failed":
                raise UserError(f"{name} has failed: {(there.get('status') or {}).get('message', '')}", EXIT_REFUSED)
            print(f"{name} is {phase_of(there)}.")
    return 0
