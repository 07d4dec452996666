"""`cotenant capsule`: saves all inputs of one decision as a file. `cotenant replay FILE`: decides again here and
compares byte by byte.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from cotenant.cli.errors import EXIT_NOT_FOUND, EXIT_REFUSED, EXIT_USAGE, UserError
from cotenant.cli.terminal.cluster_verb import cluster_verb
from cotenant.cli.terminal.connection import connect
from cotenant.cli.terminal.output import counted, table

SHOWN = 20
NONE_KEPT: Final = (
    "No past decision is kept yet: the operator keeps those that evict, and a sample of the others"
    " (operator.settings.capsule_every).\n"
    "The decision that holds now: kubectl cotenant capsule FILE"
)
DIGEST_CHARS_MIN: Final = 6
CLOCK_CHARS_MAX: Final = len("14:05:59")


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    capsule = cluster_verb(
        verbs,
        "capsule",
        save,
        "save all inputs of the operator's last decision, or of a past one, as a file",
    )
    capsule.add_argument("file", nargs="?", metavar="FILE", help="the file to write, compressed; - is stdout")
    capsule.add_argument(
        "--of",
        metavar="TIME|DIGEST",
        help="the newest decision kept before this time (14:05), or the one with this digest",
    )
    capsule.add_argument("--list", action="store_true", help="list the past decisions whose inputs are kept")
    parser = verbs.add_parser("replay", help="decide a saved capsule again, and compare the plan byte by byte")
    parser.add_argument("file", metavar="FILE", help="the capsule to read; - is stdin")
    parser.add_argument("--all", action="store_true", help=f"all lines that differ (default: the first {SHOWN})")
    parser.set_defaults(run=replay)


def save(args: argparse.Namespace) -> int:
    from cotenant.decision_log.capsule_file import checked, packed
    from cotenant.decision_log.codec import CodecError

    if bool(args.list) == bool(args.file):
        raise UserError("give FILE, or --list", EXIT_USAGE)
    connection = connect(args)
    if args.list:
        print(listed(connection.get("/capsules")["items"]))
        return 0
    name = chosen(connection.get("/capsules")["items"], args.of) if args.of else "current"
    answer = connection.get(f"/capsules/{name}")
    try:
        document = checked(answer.get("capsule"))
    except CodecError as error:
        raise UserError(f"the operator's capsule is not understood here: {error}", EXIT_REFUSED) from error
    data = packed(document)
    if args.file == "-":
        sys.stdout.buffer.write(data)
        return 0
    try:
        Path(args.file).write_bytes(data)
    except OSError as error:
        raise UserError(f"{args.file} is not written: {error}", EXIT_USAGE) from error
    jobs, nodes = (len(document.get("snapshot", {}).get(kind) or ()) for kind in ("jobs", "nodes"))
    print(f"{args.file}: a decision on {counted(jobs, 'job')} and {counted(nodes, 'node')}, {len(data)} bytes."
          " It names jobs and users of all tenants.")  # fmt: skip
    return 0


def listed(capsules: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        (
            datetime.fromisoformat(one["status"]["at"]).astimezone().strftime("%Y-%m-%d %H:%M:%S"),
            str(one["status"]["evictions"]),
            str(one["status"]["bytes"]),
            one["metadata"]["name"],
        )
        for one in capsules
    ]
    return table(("DECIDED", "EVICTS", "BYTES", "DIGEST"), rows) if rows else NONE_KEPT


def chosen(capsules: Sequence[Mapping[str, Any]], asked: str) -> str:
    """Name of the newest capsule that was decided by this time, or of the one whose digest starts so. Raises
    UserError.
    """
    named = [one["metadata"]["name"] for one in capsules if one["metadata"]["name"].startswith(asked)]
    if len(asked) >= DIGEST_CHARS_MIN and named:
        return str(named[0])
    try:
        by = datetime.fromisoformat(
            asked if len(asked) > CLOCK_CHARS_MAX else f"{datetime.now().astimezone().date()}T{asked}"
        ).astimezone()
    except ValueError:
        raise UserError(
            f"{asked!r} is neither a time such as 14:05 nor a digest of capsule --list", EXIT_USAGE
        ) from None
    for one in capsules:  # the newest first
        if datetime.fromisoformat(one["status"]["at"]) <= by:
            return str(one["metadata"]["name"])
    raise UserError("no decision of so long ago is kept: capsule --list has those that are", EXIT_NOT_FOUND)


def replay(args: argparse.Namespace) -> int:
    from cotenant import __version__
    from cotenant.decision_log.capsule import Capsule, differences, replayed
    from cotenant.decision_log.codec import CodecError

    try:
        data = sys.stdin.buffer.read() if args.file == "-" else Path(args.file).read_bytes()
        capsule = Capsule.from_bytes(data)
    except OSError as error:
        raise UserError(f"{args.file} cannot be read: {error}", EXIT_USAGE) from error
    except CodecError as error:
        raise UserError(f"{args.file}: {error}", EXIT_USAGE) from error
    different = differences(capsule, replayed(capsule))
    if not different:
        print(f"The same plan, to the byte: {counted(len(capsule.plan), 'line')}.")
        return 0
    print(
        f"Another plan: {len(different)} lines differ (decided by {capsule.program or '?'}, replayed by {__version__})."
    )
    shown = different if args.all else different[:SHOWN]
    print("\n".join(shown))
    if len(shown) < len(different):
        print(f"and {len(different) - len(shown)} more: --all")
    return EXIT_REFUSED
