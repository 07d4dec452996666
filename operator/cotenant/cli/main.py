"""The `cotenant` program: finds the verbs and runs one.

A verb is a module with `register(verbs)`, in this package or named by an entry point of the group `cotenant.verbs`: it
adds its parser (name, help, arguments) and calls `parser.set_defaults(run=function)`, where the function takes the
parsed arguments and returns the exit code. Such a module must import fast: what is heavy is imported inside the
function. A verb refuses by raising `UserError`: one message and an exit code.
"""

import argparse
import contextlib
import difflib
import importlib
import os
import pkgutil
import signal
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Final

from cotenant import __version__
from cotenant.cli.errors import EXIT_USAGE, UserError
from cotenant.cli.terminal.plain_stream import plain_output

GROUP = "cotenant.verbs"
"""Entry points of other packages that bring a verb, name → module."""

PLUGIN: Final = "kubectl cotenant"
NOT_OF_THE_PLUGIN: Final = frozenset({"agent", "crds", "demo", "local", "operator", "plugin"})
"""Verbs of the machine that they run on, and of this project's makers: kubectl offers those of a cluster's users."""

SLOW: Final = frozenset({"operator"})
"""Verbs whose flags are read from modules that take as long to import as another verb takes in all."""
OF_THEIR_OWN_OUTPUT: Final = NOT_OF_THE_PLUGIN | {"mcp"}
"""Verbs that draw their progress, or speak a protocol, and print nothing of tenants' for a person."""
WITHOUT_PACKAGES: Final = {
    "dashboard": "the pages in the cluster, where your administrator has installed them, or kubectl cotenant top",
    "replay": "kubectl exec -i -n cotenant-system deploy/cotenant-operator -- python -m cotenant replay - < FILE",
    "simulate": "kubectl cotenant whatif asks the operator about the cluster as it is",
    "validate": "kubectl apply --dry-run=server -f FILE asks the API server, which makes nothing",
}
"""Verb that needs packages → what does without them, where they cannot be installed."""


def _way_out(missing: str, words: Sequence[str]) -> str:
    """What to do about a verb whose package the one-file plugin does not bring."""
    verb = words[0] if words else ""
    extra = "dashboard" if verb == "dashboard" else "operator"
    told = f"{verb} needs {missing}, which the one-file plugin does not have: pip install 'cotenant[{extra}]' brings it"
    return told + (f"; without: {WITHOUT_PACKAGES[verb]}" if verb in WITHOUT_PACKAGES else "")


def build_parser(named: str = "cotenant", verb: str = "") -> argparse.ArgumentParser:
    """The parser of all verbs; for the one verb that is asked for, without others that are slow to import."""
    parser = argparse.ArgumentParser(prog=named, description="Share GPU nodes among tenants on Kubernetes.")
    parser.add_argument("--version", action="version", version=f"cotenant {__version__}")
    left_out = NOT_OF_THE_PLUGIN if named == PLUGIN else frozenset[str]()
    if verb and not verb.startswith("-"):
        left_out |= SLOW - {verb}
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for _, module in sorted(_modules(left_out), key=lambda found: found[0]):
        register = getattr(module, "register", None)
        if register is not None:
            register(verbs)
    return parser


def _modules(left_out: frozenset[str]) -> Iterator[tuple[str, ModuleType]]:
    """Those that may be verbs, by name."""
    for found in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if found.name not in left_out:
            yield found.name, importlib.import_module(f"cotenant.cli.{found.name}")
    for entry in entry_points(group=GROUP):
        if entry.name not in left_out:
            yield entry.name, entry.load()


def program() -> str:
    """Name of the program as it was called."""
    return PLUGIN if Path(sys.argv[0]).name in {"kubectl-cotenant", "kubectl_complete-cotenant"} else "cotenant"


def main(argv: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if argv is None else list(argv)
    with contextlib.nullcontext() if words[:1] and words[0] in OF_THEIR_OWN_OUTPUT else plain_output():
        return _run(words)


def known_verb(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Raises UserError for a verb that there is not, with the nearest that there is."""
    [verbs] = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if words and not words[0].startswith("-") and words[0] not in verbs:
        near = difflib.get_close_matches(words[0], verbs, n=1)
        meant = f"; did you mean {near[0]}?" if near else ";"
        raise UserError(f"there is no verb {words[0]}{meant} {parser.prog} --help lists them", EXIT_USAGE)


def _run(words: Sequence[str]) -> int:
    parser = build_parser(program(), *words[:1])
    try:
        known_verb(parser, words)
        args = parser.parse_args(words)
        run: Callable[[argparse.Namespace], int] = args.run
        return run(args)
    except UserError as error:
        print(f"{program()}: {error}", file=sys.stderr)
        return error.exit_code
    except ModuleNotFoundError as error:
        if not zipfile.is_zipfile(sys.argv[0]):
            raise
        print(f"{program()}: {_way_out(str(error.name), words)}", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # The reader (`| head`) went away; what stdout still buffers has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


if __name__ == "__main__":
    sys.exit(main())
