"""`cotenant attach JOB`: opens a shell, or runs a command, in the pod of one rank."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from cotenant import names
from cotenant.cli.tenants.pods import kubectl, pod_of_rank
from cotenant.cli.terminal.connection import add_arguments
from cotenant.cli.terminal.object_names import named

# No redirection here: it would hold for the shell itself, which then shows no prompt and no error.
SHELL = ("sh", "-c", 'exec "$(command -v bash || command -v sh)"')


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "attach",
        help="open a shell, or run a command, in the pod of a rank",
        epilog="It sees the GPUs of its pod, and what it uses counts against the job.",
    )
    parser.add_argument("job", metavar="JOB", help="NAME, or NAMESPACE/NAME")
    parser.add_argument("words", nargs=argparse.REMAINDER, help="the command, after -- (default: a shell)")
    _add_flags(parser)
    parser.set_defaults(run=run)


def _add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rank", type=int, default=0, metavar="N", help="the rank whose pod it is (default: 0)")
    add_arguments(parser)


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The flags that follow the job, and the command."""
    if words and words[0].startswith("-") and words[0] != "--":
        end = words.index("--") if "--" in words else len(words)
        return list(words[:end]), list(words[end + 1 :])
    return [], list(words[1:] if words[:1] == ["--"] else words)


def run(args: argparse.Namespace) -> int:
    flags, words = split(args.words)
    behind = argparse.ArgumentParser(prog="cotenant attach JOB", add_help=False)
    _add_flags(behind)
    args = behind.parse_args(flags, args)
    connection, name = named(args, args.job)
    pod = pod_of_rank(connection, name, args.rank)
    terminal = ["-t"] if sys.stdin.isatty() else []
    print(f"{name}: rank {args.rank} is in pod {pod.name}", file=sys.stderr, flush=True)
    beside = ["exec", "-i", *terminal, pod.name, "-c", names.CONTAINER, "--"]
    return kubectl(args, name.namespace, [*beside, *(words or SHELL)])
