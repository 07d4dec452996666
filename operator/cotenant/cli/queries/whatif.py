"""`cotenant whatif -f FILE` and `cotenant whatif JOB --set gpu.count=2`: what would happen, before it is done."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from cotenant import names
from cotenant.cli.documents import documents_of
from cotenant.cli.errors import UserError
from cotenant.cli.queries.connection import Connection, add_arguments, connect
from cotenant.cli.queries.output import Colour, about_when, add_format, painted, print_document

SHOWN = 5


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("whatif", help="what a job, or a change of one that waits, would do; nothing is made")
    parser.add_argument("job", metavar="JOB", nargs="?", help="a job that waits, to be changed by --set")
    parser.add_argument(
        "--set", action="append", default=[], metavar="FIELD=VALUE", dest="changes",
        help="a field of its spec, such as gpu.count=2; null leaves it out",
    )  # fmt: skip
    parser.add_argument("-f", "--filename", action="append", default=[], help="manifests: file, folder, or - for stdin")
    parser.add_argument("-R", "--recursive", action="store_true", help="folders below folders too")
    add_arguments(parser)
    add_format(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if bool(args.job) == bool(args.filename):
        raise UserError("give either JOB with --set FIELD=VALUE, or manifests with -f", 2)
    questions = list(_of_job(args)) if args.job else list(_of_manifests(args))
    if not questions:
        raise UserError("there is no TrainingJob in what was given", 2)
    connection = connect(args)
    answers = [_ask(connection, namespace, spec) for namespace, spec in questions]
    if args.output == "name":
        print("\n".join(f"trainingjob.cotenant.dev/{one['metadata']['name']}" for one in answers))
        return 0
    whole = answers[0] if len(answers) == 1 else {"kind": "List", "apiVersion": "v1", "items": answers}
    if not print_document(whole, args.output):
        print("\n\n".join("\n".join(sentences(one, wide=args.output == "wide")) for one in answers))
    return 0


def _of_job(args: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    namespace, _, name = args.job.rpartition("/")
    yield namespace, {"job": name, "change": dict(_change(one) for one in args.changes)}


def _change(text: str) -> tuple[str, object]:
    field, given, value = text.partition("=")
    if not field or not given:
        raise UserError(f"--set {text}: give FIELD=VALUE, such as gpu.count=2", 2)
    try:
        parsed: object = json.loads(value, parse_float=str)  # fractions are texts in every manifest
    except ValueError:
        parsed = value
    return (field if field.startswith("spec.") else f"spec.{field}"), parsed


def _of_manifests(args: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    from cotenant.api.validation.errors import DocumentError

    try:
        for document in documents_of(args.filename, recursive=args.recursive):
            if document.get("kind") == "TrainingJob" and str(document.get("apiVersion")) == names.API_VERSION:
                yield (document.get("metadata") or {}).get("namespace") or "", {"manifest": document}
    except DocumentError as error:
        raise UserError(str(error)) from error


def _ask(connection: Connection, namespace: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    body = {"apiVersion": f"{names.QUERY_GROUP}/{names.VERSION}", "kind": "WhatIf", "spec": spec}
    return connection.post(f"/namespaces/{quote(namespace or connection.namespace, safe='')}/whatifs", body)


def sentences(answer: Mapping[str, Any], *, wide: bool = False) -> Iterator[str]:
    """The answer in words, a line each."""
    metadata, status = answer["metadata"], answer.get("status") or {}
    job = painted(f"{metadata['namespace']}/{metadata['name']}", Colour.BOLD)
    nodes = ", ".join(f"{node} ({workers})" for node, workers in (status.get("nodes") or {}).items())
    match status.get("outcome"):
        case "Starts":
            yield painted(f"{job} would start now for {status['asks']}, workers on {nodes}.", Colour.GREEN)
        case "StartsAfterEvictions":
            yield f"{job} would start for {status['asks']} on {nodes}, as soon as others have left:"
        case _:
            reason = painted(status.get("reason", ""), Colour.RED if status.get("needsChange") else Colour.YELLOW)
            yield f"{job} would wait for {status['asks']}: {reason}"
            yield status.get("message", "")
    for one in status.get("victims") or []:
        yield f"  would have to leave: {one['job']}, {one['asks']}: {one['why']}"
    yield from _delayed(status, wide=wide)
    if start := status.get("estimatedStart"):
        by = f", nine times out of ten by {about_when(status['latestStart'])}" if status.get("latestStart") else ""
        yield f"Would start at about {about_when(start)}{by}."
    if status.get("wouldStartIf"):
        yield painted(f"Would start now if {status['wouldStartIf']}.", Colour.GREEN)


def _delayed(status: Mapping[str, Any], *, wide: bool) -> Iterator[str]:
    delayed = status.get("delayed") or []
    shown = delayed if wide else delayed[:SHOWN]
    for one in shown:
        yield f"  delayed by it: {one['job']}, {one['asks']}: {one['why']}"
    if more := len(delayed) - len(shown) + status.get("delayedMore", 0):
        yield f"  and {more} more"
