"""`cotenant mcp`: serve an agent over stdin and stdout, with the rights of a kubeconfig."""

from __future__ import annotations

import argparse

from cotenant.cli.errors import EXIT_USAGE, UserError
from cotenant.cli.terminal.connection import add_arguments, connect


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("mcp", help="serve an agent (Model Context Protocol) over stdin and stdout")
    add_arguments(parser)
    parser.add_argument(
        "--allow-writes",
        action="store_true",
        help="let it submit, stop, resume and delete jobs: each is proposed first, and applied as it was shown",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    try:
        from cotenant.mcp.tools import make_server
    except ImportError as error:
        raise UserError(f"agents need more packages: pip install 'cotenant[mcp]' ({error})", EXIT_USAGE) from error
    from cotenant.sdk.api_session import ApiSession
    from cotenant.sdk.async_client import AsyncClient

    connection = connect(args)
    client = AsyncClient(ApiSession(connection.server), connection.namespace, connection.namespace)
    make_server(client, allow_writes=args.allow_writes).run("stdio")
    return 0
