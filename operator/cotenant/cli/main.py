"""The `cotenant` program: finds the verbs and runs one.

A verb is a module of this package with `register(verbs)`: it adds its parser (name, help, arguments) and calls
`parser.set_defaults(run=function)`, where the function takes the parsed arguments and returns the exit code. Such a
module must import fast: what is heavy is imported inside the function. `UserError` is how a verb says no: one message
and an exit code.
"""

import argparse
import importlib
import os
import pkgutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from cotenant import __version__
from cotenant.cli.errors import UserError


def build_parser(program: str = "cotenant") -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=program, description="Share GPU nodes among tenants on Kubernetes.")
    parser.add_argument("--version", action="version", version=f"cotenant {__version__}")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for module in sorted(found.name for found in pkgutil.iter_modules([str(Path(__file__).parent)])):
        register = getattr(importlib.import_module(f"cotenant.cli.{module}"), "register", None)
        if register is not None:
            register(verbs)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    program = "kubectl cotenant" if Path(sys.argv[0]).name == "kubectl-cotenant" else "cotenant"
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
