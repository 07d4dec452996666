"""`cotenant dashboard`: pages about queues, GPUs and jobs, on this machine with the caller's kubeconfig, or in
a pod.
"""

from __future__ import annotations

import argparse
import os
from ipaddress import ip_network
from pathlib import Path
from typing import Final

from cotenant.cli.errors import UserError
from cotenant.cli.terminal.cluster_verb import cluster_verb
from cotenant.cli.terminal.connection import connect

AUTHORITY: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt")


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = cluster_verb(
        verbs,
        "dashboard",
        run,
        "serve pages about queues, GPUs and jobs, for your browser",
        all_namespaces=True,
    )
    parser.add_argument("--port", type=int, default=0, metavar="N", help="port on this machine (default: any free one)")
    pod = parser.add_argument_group("in a cluster, as the chart runs it")
    pod.add_argument(
        "--certificate",
        type=Path,
        metavar="FOLDER",
        help="in a pod: serve everybody over TLS, with tls.crt and tls.key of this folder",
    )
    pod.add_argument("--host", default="", help="in a pod: address to listen on (default: all IPv4 and IPv6 addresses)")
    pod.add_argument(
        "--trusted-proxy",
        action="append",
        default=[],
        metavar="CIDR",
        help="in a pod: network of a proxy that passes people's tokens on",
    )
    pod.add_argument(
        "--sessions-host", default="", metavar="HOST", help="in a pod: parent domain of the host names of sessions"
    )
    pod.add_argument(
        "--sessions-port", type=int, default=8444, metavar="N", help="in a pod: port of sessions (default: 8444)"
    )
    pod.add_argument(
        "--proxy-header",
        default="Authorization",
        metavar="NAME",
        help="in a pod: header in which the proxy passes the token",
    )


def run(args: argparse.Namespace) -> int:
    import asyncio

    try:
        from cotenant.dashboard.process import OwnServer, serve_own
    except ImportError as error:
        raise UserError(f"pages need more packages: pip install 'cotenant[dashboard]' ({error})", 2) from None
    if args.certificate is not None:
        return _in_cluster(args)
    connection = connect(args)
    settings = OwnServer(
        credentials=connection.server,
        namespace="*" if args.all_namespaces else args.namespace or "",
        home=connection.namespace,
        port=args.port,
    )

    def told(address: str) -> None:
        print(f"The dashboard is at\n\n  {address}\n\nfor one login, until you press Ctrl-C.", flush=True)

    try:
        asyncio.run(serve_own(settings, told))
    except OSError as error:
        raise UserError(f"port {args.port} cannot be had: {error}", 1) from error
    return 0


def _in_cluster(args: argparse.Namespace) -> int:
    import asyncio
    import signal

    from cotenant.dashboard.access.entrances import TrustedProxy
    from cotenant.dashboard.process import ServerInCluster, serve_cluster

    try:
        networks = tuple(ip_network(one) for one in args.trusted_proxy)
    except ValueError as error:
        raise UserError(f"--trusted-proxy: {error}", 2) from error
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise UserError("--certificate is for a pod: KUBERNETES_SERVICE_HOST is not set", 2)
    settings = ServerInCluster(
        api_server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        authority=AUTHORITY,
        host=args.host,
        port=args.port or 8443,
        certificate=args.certificate,
        proxy=TrustedProxy(networks=networks, header=args.proxy_header),
        sessions_host=args.sessions_host,
        sessions_port=args.sessions_port,
    )

    async def serve() -> None:
        task = asyncio.ensure_future(serve_cluster(settings))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        await asyncio.gather(task, return_exceptions=True)
        if not task.cancelled():
            task.result()

    asyncio.run(serve())
    return 0
