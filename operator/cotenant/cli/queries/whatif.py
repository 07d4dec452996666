"""`cotenant whatif -f FILE` and `cotenant whatif JOB --set gpu.count=2`: what a change of a job would do.

`cluster_whatif` asks about changes of the cluster.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cotenant import names
from cotenant.cli.documents import documents_of
from cotenant.cli.errors import EXIT_USAGE, UserError
from cotenant.cli.queries import cluster_whatif
from cotenant.cli.terminal import object_names
from cotenant.cli.terminal.cluster_verb import cluster_verb
from cotenant.cli.terminal.connection import Connection, connect
from cotenant.cli.terminal.output import Colour, about_when, painted
from cotenant.cli.terminal.watch import show_found
from cotenant.sdk import plan
from cotenant.sdk.job_paths import question_path, what_if
from cotenant.sdk.plan import Tone

SHOWN = 5


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = cluster_verb(
        verbs,
        "whatif",
        run,
        "show what a new job, or a change of a job, queue, node or setting would do; nothing is changed",
        printed=True,
        epilog=cluster_whatif.EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "about",
        metavar="JOB",
        nargs="*",
        help="a waiting job to change with --set; or queue NAME, node NAME or setting NAME with the change",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="FIELD=VALUE", dest="changes",
        help="change a field of its spec, such as gpu.count=2; null removes the field",
    )  # fmt: skip
    parser.add_argument(
        "-f",
        "--filename",
        metavar="FILE|-|DIR",
        action="append",
        default=[],
        help="manifests: file, folder, or - for stdin",
    )
    parser.add_argument("-R", "--recursive", action="store_true", help="include folders below a folder")


def run(args: argparse.Namespace) -> int:
    if cluster_whatif.is_about_the_cluster(args.about):
        return cluster_whatif.run(args)
    if bool(args.about) == bool(args.filename) or len(args.about) > 1:
        raise UserError(
            "give JOB with --set FIELD=VALUE, manifests with -f, or queue NAME, node NAME or setting NAME", EXIT_USAGE
        )
    questions = list(_of_job(args)) if args.about else list(_of_manifests(args))
    if not questions:
        raise UserError("there is no TrainingJob in what was given", EXIT_USAGE)
    connection = connect(args)
    answers = [ask(connection, namespace, spec) for namespace, spec in questions]
    whole = answers[0] if len(answers) == 1 else {"kind": "List", "apiVersion": "v1", "items": answers}

    def text(_: object, wide: bool) -> list[str]:
        return ["\n\n".join("\n".join(sentences(one, wide=wide)) for one in answers)]

    return show_found(args, lambda: whole, text, "trainingjob")


def _of_job(args: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    namespace, name = object_names.split(args.about[0])
    yield namespace, {"job": name, "change": dict(change_of(one) for one in args.changes)}


def change_of(text: str) -> tuple[str, object]:
    field, given, value = text.partition("=")
    if not field or not given:
        raise UserError(f"--set {text}: give FIELD=VALUE, such as gpu.count=2", EXIT_USAGE)
    try:
        parsed: object = json.loads(value, parse_float=str)  # fractions are texts in every manifest
    except ValueError:
        parsed = value
    return (field if field.startswith("spec.") else f"spec.{field}"), parsed


def _of_manifests(args: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    for document in documents_of(args.filename, recursive=args.recursive):
        if document.get("kind") == "TrainingJob" and document.get("apiVersion") in names.API_VERSIONS:
            yield (document.get("metadata") or {}).get("namespace") or "", {"manifest": document}


def ask(connection: Connection, namespace: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return connection.call("POST", question_path(namespace or connection.namespace, "whatifs"), what_if(spec))


def sentences(answer: Mapping[str, Any], *, wide: bool = False) -> Iterator[str]:
    """The answer in words, one line each."""
    metadata, status = answer["metadata"], answer.get("status") or {}
    most = len(status.get("delayed") or []) if wide else SHOWN
    job = f"{metadata['namespace']}/{metadata['name']}"
    return plan.sentences(job, status, most=most, painted=_painted, when=about_when)


def _painted(text: str, tone: Tone) -> str:
    return painted(text, _COLOURS[tone])


_COLOURS: Final = {
    Tone.NAME: Colour.BOLD,
    Tone.STARTS: Colour.GREEN,
    Tone.WAITS: Colour.YELLOW,
    Tone.NEEDS_CHANGE: Colour.RED,
}
