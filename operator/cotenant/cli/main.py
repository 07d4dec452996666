"""The `cotenant` program: finds the verbs and runs one.

A verb is a module with `register(verbs)`. The module `verbs` names it, or an entry point of the group `cotenant.verbs`
does. `register` adds a parser (name, help, arguments) and calls `parser.set_defaults(run=function)`. The function takes
the parsed arguments and returns the exit code. The module must import fast, so it imports heavy packages inside the
function. A verb refuses by raising `UserError`: one message and an exit code.
"""

import argparse
import contextlib
import difflib
import importlib
import os
import signal
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from cotenant import __version__
from cotenant.cli import verbs
from cotenant.cli.errors import EXIT_USAGE, UserError
from cotenant.cli.terminal.plain_stream import plain_output

PLUGIN: Final = "kubectl cotenant"
NOT_OF_THE_PLUGIN: Final = frozenset({"agent", "crds", "demo", "local", "operator", "plugin"})
"""Verbs that kubectl does not offer: they concern the machine that they run on, or this project's developers."""

SLOW: Final = frozenset({"cotenant.cli.operator"})
"""Modules of verbs whose flags come from slow imports. `register_name` registers such a verb without its flags."""
OF_THEIR_OWN_OUTPUT: Final = NOT_OF_THE_PLUGIN | {"mcp"}
"""Verbs that draw their own progress or speak a protocol. They print no text of tenants for a person."""
WITHOUT_PACKAGES: Final = {
    "dashboard": "the pages in the cluster, where your administrator has installed them, or kubectl cotenant top",
    "replay": "kubectl exec -i -n cotenant-system deploy/cotenant-operator -- python -m cotenant replay - < FILE",
    "simulate": "kubectl cotenant whatif asks the operator about the cluster as it is",
    "validate": "kubectl apply --dry-run=server -f FILE asks the API server, which makes nothing",
}
"""Verb that needs packages → the verb that does a similar job without them."""


def _way_out(missing: str, words: Sequence[str]) -> str:
    """What to do if the one-file plugin does not contain the verb's package."""
    verb = words[0] if words else ""
    extra = "dashboard" if verb == "dashboard" else "operator"
    told = f"{verb} needs {missing}, which the one-file plugin does not have: pip install 'cotenant[{extra}]' brings it"
    return told + (f"; without: {WITHOUT_PACKAGES[verb]}" if verb in WITHOUT_PACKAGES else "")


def build_parser(named: str = "cotenant", verb: str = "") -> argparse.ArgumentParser:
    """The parser of this verb, or of all verbs if `verb` is empty or a flag.

    If `verb` is a flag, verbs in `SLOW` are registered without their own flags.
    """
    parser = argparse.ArgumentParser(prog=named, description="Share GPU nodes among tenants on Kubernetes.")
    parser.add_argument("--version", action="version", version=f"cotenant {__version__}")
    registered = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    known = known_verbs(named, verb)
    for name in dict.fromkeys(known.values()):
        module = importlib.import_module(name)
        is_named_only = verb.startswith("-") and name in SLOW
        (module.register_name if is_named_only else module.register)(registered)
    return parser


def known_verbs(named: str, verb: str = "") -> dict[str, str]:
    """Verb → the module that registers it, for the program with this name. Only `verb` if it is known,
    otherwise all.
    """
    left_out = NOT_OF_THE_PLUGIN if named == PLUGIN else frozenset[str]()
    if verb in verbs.OWN and verb not in left_out:  # entry points are looked for only where that is needed
        return {verb: verbs.OWN[verb]}
    found = {one: module for one, module in verbs.modules().items() if one not in left_out}
    return {verb: found[verb]} if verb in found else found


def program() -> str:
    """The program's name, as it was called."""
    return PLUGIN if Path(sys.argv[0]).name in {"kubectl-cotenant", "kubectl_complete-cotenant"} else "cotenant"


def main(argv: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if argv is None else list(argv)
    with contextlib.nullcontext() if words[:1] and words[0] in OF_THEIR_OWN_OUTPUT else plain_output():
        return _run(words)


def refuse_unknown(named: str, words: Sequence[str]) -> None:
    """Raises UserError for an unknown verb, with the most similar known one."""
    known = known_verbs(named, *words[:1])
    if words and not words[0].startswith("-") and words[0] not in known:
        near = difflib.get_close_matches(words[0], known, n=1)
        meant = f"; did you mean {near[0]}?" if near else ";"
        raise UserError(f"there is no verb {words[0]}{meant} {named} --help lists them", EXIT_USAGE)


def _run(words: Sequence[str]) -> int:
    try:
        refuse_unknown(program(), words)
        args = build_parser(program(), words[0] if words else "-").parse_args(words)
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
