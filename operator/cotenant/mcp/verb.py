"""`cotenant mcp`: serve an agent over stdin and stdout, with the rights of a kubeconfig."""

from __future__ import annotations

import argparse

from cotenant.cli.errors import EXIT_USAGE, UserError
from cotenant.cli.terminal.cluster_verb import cluster_verb
from cotenant.cli.terminal.connection import connect


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = cluster_verb(verbs, "mcp", run, "serve an AI agent over stdin and stdout (Model Context Protocol)")
    parser.add_argument(
        "--allow-writes",
        action="store_true",
        help="let the agent submit, stop, resume and delete jobs; each change is proposed first and applied as shown",
    )


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
