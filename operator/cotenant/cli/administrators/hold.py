"""`cotenant hold queue NAME`, `cotenant hold job JOB`, `cotenant release`: what is held does not start until it is
released.

A queue is held by a field of the Queue, so only a person who may edit Queues can release it. A job is held by
suspending it. Its owner can resume it, and the verb says so.
"""

from __future__ import annotations

import argparse

from cotenant.cli.tenants.jobs import refuse_session, suspend
from cotenant.cli.terminal.cluster_verb import cluster_verb
from cotenant.cli.terminal.connection import Connection, connect
from cotenant.cli.terminal.object_names import ObjectName, named
from cotenant.sdk.job_paths import object_path


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    _add(verbs.add_parser("hold", help="keep the jobs of a queue from starting, or suspend a job"), holds=True)
    _add(verbs.add_parser("release", help="end a hold of a queue or a job"), holds=False)


def _add(verb: argparse.ArgumentParser, *, holds: bool) -> None:
    kinds = verb.add_subparsers(title="what", metavar="WHAT", required=True)
    of_queue = "hold a queue and all queues below it; running jobs continue" if holds else "end the hold of a queue"
    of_job = "suspend one job: it saves and leaves; its owner can resume it" if holds else "resume one job"
    queue = cluster_verb(kinds, "queue", run_queue, of_queue)
    queue.add_argument("queue", metavar="QUEUE")
    job = cluster_verb(kinds, "job", run_job, of_job)
    job.add_argument("job", metavar="JOB", help="NAME, or NAMESPACE/NAME")
    if holds:
        queue.add_argument("--reason", required=True, metavar="TEXT", help="the reason, which waiting jobs show")
        job.add_argument("--reason", metavar="TEXT", help="the reason, which the job shows its owner")
    for parser in (queue, job):
        parser.set_defaults(holds=holds)


def run_queue(args: argparse.Namespace) -> int:
    hold_queue(connect(args), args.queue, args.reason if args.holds else None)
    return 0


def run_job(args: argparse.Namespace) -> int:
    suspend_job(*named(args, args.job), suspended=args.holds, reason=args.reason if args.holds else None)
    return 0


def hold_queue(connection: Connection, queue: str, reason: str | None) -> None:
    """Hold the queue with this reason. None releases it."""
    connection.patch(object_path("queues", name=queue), {"spec": {"hold": reason}})
    print(f"queue {queue}: " + (f"no job of it starts: {reason}" if reason else "its jobs start again"))


def suspend_job(connection: Connection, name: ObjectName, *, suspended: bool, reason: str | None = None) -> None:
    job = connection.read(name.path)
    refuse_session(job, name, "stop" if suspended else "resume")
    suspend(connection, name.path, job, suspended, reason)
    told = "suspended; its owner can resume it: hold its queue if that must not be" if suspended else "resumed"
    print(f"{name}: {told}")
