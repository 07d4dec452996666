"""`cotenant quota request|list|approve|deny`: asks for more than the queue's quotas for some time, and answers.

An answer applies to exactly the object that was shown. If it was deleted and created again, the answer is refused. RBAC
and a policy of the API server decide who may answer.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from cotenant import names
from cotenant.api.scalars.quantities import QuantityError, parse_gpus, parse_memory
from cotenant.cli.errors import EXIT_USAGE, UserError
from cotenant.cli.terminal.clock import clock
from cotenant.cli.terminal.cluster_verb import cluster_verb, time
from cotenant.cli.terminal.connection import Connection, connect
from cotenant.cli.terminal.object_names import ObjectName, named
from cotenant.cli.terminal.output import table
from cotenant.cli.terminal.watch import show_found
from cotenant.sdk.job_paths import object_path

WHO_AM_I: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_AMOUNTS: Final = {
    "gpus": "gpus",
    "class": "gpuClass",
    "zone": "zone",
    "user": "user",
    "guaranteed": "guaranteed",
    "memory": "memory",
}
_READERS: Final[dict[str, tuple[Callable[[str], int], str]]] = {
    "gpus": (parse_gpus, "gpus=4"),
    "guaranteed": (parse_gpus, "guaranteed=2"),
    "memory": (parse_memory, "memory=320Gi"),
}
"""What reads an amount, and an example of one."""
OVER: Final = frozenset({"Denied", "Revoked", "Expired"})
"""Phases of requests that have ended."""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "quota", help="ask for more than the queue's quotas for some time, or answer such a request"
    )
    kinds = verb.add_subparsers(title="what", metavar="WHAT", required=True)
    ask = cluster_verb(kinds, "request", run_request, "ask an administrator for more quota")
    ask.add_argument(
        "more", metavar="MORE", nargs="+",
        help="what to add, one word for each line of the quota: gpus=4,class=H100,zone=eu-1,user=ann,guaranteed=2",
    )  # fmt: skip
    until = ask.add_mutually_exclusive_group(required=True)
    until.add_argument("--for", type=time, dest="period", metavar="TIME", help="how long the grant lasts: 36h, 14d, 2w")
    until.add_argument("--until", metavar="MOMENT", help="when the grant ends: 2030-01-31 or 2030-01-31T18:00:00Z")
    ask.add_argument("--reason", required=True, metavar="TEXT", help="the purpose, which the administrator reads")
    ask.add_argument("--queue", metavar="QUEUE", help="queue (default: the one that serves the namespace)")
    ask.add_argument("--name", metavar="NAME", help="name of the request (default: more-…)")
    cluster_verb(kinds, "list", run_list, "list requests and their answers", all_namespaces=True, watched=True)
    for decision, word, meant in (
        ("Approved", "approve", "grant the request"),
        ("Denied", "deny", "refuse the request, or take the grant back"),
    ):
        answer = cluster_verb(kinds, word, run_answer, meant)
        answer.add_argument("request", metavar="REQUEST", help="NAME, or NAMESPACE/NAME")
        answer.add_argument("--message", default="", metavar="TEXT", help="a message to the tenant")
        if decision == "Approved":
            answer.add_argument("--until", metavar="MOMENT", help="end the grant earlier than was asked for")
        answer.set_defaults(decision=decision)


def run_request(args: argparse.Namespace) -> int:
    connection = connect(args)
    until = _moment(args.until) if args.until else _shown(clock.now() + args.period)
    metadata = {"name": args.name} if args.name else {"generateName": "more-"}
    queue = {"queue": args.queue} if args.queue else {}
    body = {
        "apiVersion": names.API_VERSION,
        "kind": "QuotaRequest",
        "metadata": metadata,
        "spec": {**queue, "quotas": [more_of(one) for one in args.more], "until": until, "reason": args.reason},
    }
    made = connection.call("POST", object_path("quotarequests", connection.namespace), body)
    name = f"{connection.namespace}/{made['metadata']['name']}"
    print(f"{name} asks until {until}; an administrator answers: kubectl cotenant quota approve {name}")
    return 0


def run_list(args: argparse.Namespace) -> int:
    connection = connect(args)
    path = object_path("quotarequests", "" if args.all_namespaces else connection.namespace)
    read = partial(connection.read, path)
    return show_found(args, read, lambda found, wide: [listing(found["items"], wide=wide)], "quotarequest")


def listing(items: Sequence[Mapping[str, Any]], *, wide: bool) -> str:
    more = ("BY", "REASON", "MESSAGE") if wide else ()
    rows = [_row(one, wide=wide) for one in items]
    header = ("REQUEST", "PHASE", "QUEUE", "ASKED", "UNTIL", *more)
    if not rows:
        return "There are no requests here."
    return "\n".join([table(header, rows), *(line for one in items for line in objections(one))])


def objections(document: Mapping[str, Any]) -> Iterator[str]:
    """What stands against a request that is not over: it would add nothing, or the queues above have no room."""
    metadata, status = document["metadata"], document.get("status") or {}
    if status.get("phase") in OVER:
        return
    for condition in status.get("conditions") or ():
        if condition["type"] in {"Applicable", "WithinParents"} and condition["status"] == "False":
            yield f"{metadata['namespace']}/{metadata['name']}: {condition['message']}"


def _row(document: Mapping[str, Any], *, wide: bool) -> tuple[str, ...]:
    metadata, spec, status = document["metadata"], document["spec"], document.get("status") or {}
    until = (status.get("granted") or {}).get("until") or spec["until"]
    shown = (
        f"{metadata['namespace']}/{metadata['name']}",
        status.get("phase") or "-",
        status.get("queue") or spec.get("queue") or "-",
        status.get("asked") or "-",
        until,
    )
    by = (status.get("approval") or {}).get("by") or "-"
    return (*shown, by, spec["reason"], status.get("message") or "-") if wide else shown


def run_answer(args: argparse.Namespace) -> int:
    answer(*named(args, args.request, "request"), args.decision, args.message, _earlier(args))
    return 0


def _earlier(args: argparse.Namespace) -> str:
    until = getattr(args, "until", None)
    return _moment(until) if until else ""


def answer(connection: Connection, request: ObjectName, decision: str, message: str, until: str) -> None:
    """Show what is against the request, then answer it in the caller's name."""
    seen = connection.read(request.path)
    status, metadata = seen.get("status") or {}, seen["metadata"]
    if (phase := status.get("phase")) in OVER:
        raise UserError(f"{request} is {phase} and not answered any more: the tenant has to make another request")
    if phase == "Granted" and decision == "Approved":
        raise UserError(f"{request} is granted already: `kubectl cotenant quota deny {request}` takes it back")
    for objection in objections(seen) if decision == "Approved" else ():
        print(f"warning: {objection}", file=sys.stderr)
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    me = connection.call("POST", WHO_AM_I, review)["status"]["userInfo"]["username"]
    given = {"decision": decision, "by": me}
    given |= ({"message": message} if message else {}) | ({"until": until} if until else {})
    guard = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    connection.patch(f"{request.path}/status", {"metadata": guard, "status": {"approval": given}})
    asked = f": {status['asked']}" if status.get("asked") else ""
    became = "taken back" if phase == "Granted" else decision.lower()
    print(f"{request} is {became}{asked}" + (f", until {until}" if until else ""))


def more_of(text: str) -> dict[str, Any]:
    """A line of a request from a text such as `gpus=4,class=H100`. Raises UserError."""
    found: dict[str, Any] = {}
    for part in text.split(","):
        name, sign, value = part.partition("=")
        if not sign or name not in _AMOUNTS or not value:
            known = ", ".join(_AMOUNTS)
            raise UserError(
                f"{part!r} is none of {known} with a value: write for example gpus=4,class=H100", EXIT_USAGE
            )
        found[_AMOUNTS[name]] = _amount(name, value)
    if "gpus" not in found:
        raise UserError(f"{text!r} does not say how many: write for example gpus=4,{text}", EXIT_USAGE)
    return found


def _amount(name: str, value: str) -> int | str:
    """Raises UserError if the API server would not take it: its answer is a form, and no sentence."""
    try:
        if name in _READERS:
            _READERS[name][0](value)
    except QuantityError as error:
        raise UserError(f"{name}: {error}; write for example {_READERS[name][1]}", EXIT_USAGE) from None
    return int(value) if name in {"gpus", "guaranteed"} and value.isdigit() else value


def _moment(text: str) -> str:
    """A time as RFC 3339 in UTC. A date stands for the end of that day."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UserError(f"{text!r} is no moment: write for example 2030-01-31T18:00:00Z", EXIT_USAGE) from None
    if len(text) == len("2030-01-31"):
        at = at.replace(hour=23, minute=59, second=59)
    return _shown(at if at.tzinfo else at.replace(tzinfo=UTC))


def _shown(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
