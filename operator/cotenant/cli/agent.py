"""`cotenant agent …`: replaces this process by the node agent, because the operator's packages never import the
agent.
"""

import argparse
import os
import sys
from importlib.util import find_spec
from typing import Any

from cotenant.cli.errors import UserError


def register(verbs: Any) -> None:
    # No argument looks like an option to this parser: all of them, --help too, are the agent's own.
    parser = verbs.add_parser(
        "agent", help="publish this node's GPUs (runs on every GPU node)", prefix_chars="\0", add_help=False
    )
    parser.add_argument("arguments", nargs="*")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if find_spec("pynvml") is None or find_spec("kubernetes") is None:
        raise UserError("the agent's dependencies are not installed: pip install 'cotenant[agent]'", 2)
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "cotenant_agent", *args.arguments])
