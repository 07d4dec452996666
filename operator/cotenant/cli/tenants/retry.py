"""`cotenant retry JOB`: runs a finished job again: a new job with the same spec, from the old job's checkpoint."""

from __future__ import annotations

import argparse
import copy
import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from cotenant.cli.errors import EXIT_REFUSED, UserError
from cotenant.cli.queries.whatif import change_of
from cotenant.cli.tenants.jobs import FINISHED, Document, exists, made_by, phase_of, refuse_session
from cotenant.cli.terminal.cluster_verb import cluster_verb
from cotenant.cli.terminal.connection import Connection
from cotenant.cli.terminal.object_names import ObjectName, named
from cotenant.names import GROUP
from cotenant.sdk.job_paths import jobs_path

LONGEST_NAME: Final = 50
TRIES: Final = 100
NOT_COPIED: Final = ("kubectl.kubernetes.io/", f"{GROUP}/")


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = cluster_verb(verbs, "retry", run, "run a finished job again, as a new job that starts from its checkpoint")
    parser.add_argument("job", metavar="JOB", help="NAME, or NAMESPACE/NAME")
    parser.add_argument(
        "--name", metavar="NEW", help="name of the new job (default: the old name with the next free number)"
    )
    parser.add_argument("--fresh", action="store_true", help="start from the beginning, not from the checkpoint")
    parser.add_argument(
        "--set", action="append", default=[], metavar="FIELD=VALUE", dest="changes",
        help="change a field of its spec, such as maxRuntime=12h; null removes the field",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    connection, name = named(args, args.job)
    job = connection.read(name.path)
    refuse_session(job, name, "resume")
    if phase_of(job) not in FINISHED:
        raise UserError(f"{name} is {phase_of(job)}, and not over: stop it, or delete it, first", EXIT_REFUSED)
    taken = partial(_is_taken, connection, name.namespace)
    new = args.name or next_name(name.name, taken, is_trial=bool(made_by(job, "Sweep")))
    document = again(job, new, fresh=args.fresh)
    for text in args.changes:
        _write(document, *change_of(text))
    made = connection.call("POST", jobs_path(name.namespace), document)
    goes_on = "checkpoint" in document["spec"] and not args.fresh
    how = "goes on from the checkpoint of" if goes_on else "is a new run of"
    there = f"{name.namespace}/{made['metadata']['name']}"
    print(f"{there} {how} {name}, and waits for its place: `kubectl cotenant why {there}`")
    return 0


def _is_taken(connection: Connection, namespace: str, name: str) -> bool:
    return exists(connection, ObjectName(namespace, name))


def next_name(name: str, taken: Callable[[str], bool], *, is_trial: bool = False) -> str:
    """The name with the first free number behind it, starting with 2. The number of a trial stays: the next one is the
    name of another trial. Raises UserError.
    """
    found = None if is_trial else re.fullmatch(r"(.+?)-(\d{1,4})", name)
    stem, number = (found[1], int(found[2])) if found else (name, 1)
    for candidate in range(number + 1, number + 1 + TRIES):
        suffix = f"-{candidate}"
        new = stem[: LONGEST_NAME - len(suffix)].rstrip("-") + suffix
        if not taken(new):
            return new
    raise UserError(f"{TRIES} names behind {name} are taken: give one with --name", EXIT_REFUSED)


def again(job: Document, new: str, *, fresh: bool) -> dict[str, Any]:
    """The document of the new job.

    By default checkpoints lie under the name of their job, so the document names the old job's checkpoint.
    """
    metadata, spec = job["metadata"], copy.deepcopy(dict(job["spec"]))
    spec.pop("suspend", None)
    checkpoint = spec.get("checkpoint")
    if checkpoint is not None and fresh:
        checkpoint["path"] = f"{checkpoint['path'].rstrip('/')}/{new}" if "path" in checkpoint else new
    elif checkpoint is not None:
        checkpoint.setdefault("path", metadata["name"])
    own = {"name": new, "namespace": metadata["namespace"]}
    kept = {field: chosen for field in ("labels", "annotations") if (chosen := _copied(metadata.get(field) or {}))}
    return {"apiVersion": job["apiVersion"], "kind": job["kind"], "metadata": own | kept, "spec": spec}


def _copied(words: Document) -> dict[str, str]:
    return {key: value for key, value in words.items() if not key.startswith(NOT_COPIED)}


def _write(document: dict[str, Any], path: str, value: object) -> None:
    *above, last = path.split(".")
    at = document
    for part in above:
        at = at.setdefault(part, {})
        if not isinstance(at, dict):
            raise UserError(f"--set {path}: {part} has no fields", 2)
    if value is None:
        at.pop(last, None)
    else:
        at[last] = value
