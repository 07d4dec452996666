"""The `cotenant` program: finds the verbs and runs one.

A verb is a module with `register(verbs)`, in this package or named by an entry point of the group `cotenant.verbs`: it
adds its parser (name, help, arguments) and calls `parser.set_defaults(run=function)`, where the function takes the
parsed arguments and returns the exit code. Such a module must import fast: what is heavy is imported inside the
function. A verb refuses by raising `UserError`: one message and an exit code.
"""

import argparse
import importlib
import os
import pkgutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Final

from cotenant import __version__
from cotenant.cli.errors import UserError

GROUP = "cotenant.verbs"
"""Entry points of other packages that bring a verb, name → module."""

PLUGIN: Final = "kubectl cotenant"
NOT_OF_THE_PLUGIN: Final = frozenset({"agent", "crds", "demo", "local", "operator"})
"""Verbs of the machine that they run on, and of this project's makers: kubectl offers those of a cluster's users."""


def build_parser(program: str = "cotenant") -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=program, description="Share GPU nodes among tenants on Kubernetes.")
    parser.add_argument("--version", action="version", version=f"cotenant {__version__}")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for name, module in sorted(_modules(), key=lambda found: found[0]):
        if program == PLUGIN and name in NOT_OF_THE_PLUGIN:
            continue
        register = getattr(module, "register", None)
        if register is not None:
            register(verbs)
    return parser


def _modules() -> Iterator[tuple[str, ModuleType]]:
    """Those that may be verbs, by name."""
    for found in pkgutil.iter_modules([str(Path(__file__).parent)]):
        yield found.name, importlib.import_module(f"cotenant.cli.{found.name}")
    for entry in entry_points(group=GROUP):
        yield entry.name, entry.load()


def main(argv: Sequence[str] | None = None) -> int:
    program = PLUGIN if Path(sys.argv[0]).name == "kubectl-cotenant" else "cotenant"
    args = build_parser(program).parse_args(argv)
    run: Callable[[argparse.Namespace], int] = args.run
    try:
        return run(args)
    except UserError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # The reader (`| head`) went away; what stdout still buffers has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


if __name__ == "__main__":
    sys.exit(main())
