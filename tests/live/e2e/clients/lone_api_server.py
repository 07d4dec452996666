"""An API server by itself on loopback, with an etcd of its own and nothing else: for questions of who may log in.

The same program and the same command line as the local cluster's; it takes some seconds and needs no namespaces.
"""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotenant_local.cluster import identities
from cotenant_local.controlplane import components
from cotenant_local.host.api_client import Api
from cotenant_local.host.cluster_folder import ClusterFolder
from cotenant_local.host.patience import stretched
from cotenant_local.programs import build
from local.tests.plans import cluster_plan

START_S = 120.0


@dataclass(frozen=True)
class LoneApiServer:
    url: str
    authority: Path
    admin: Api


@contextmanager
def lone_api_server(folder: Path, authentication: Mapping[str, Any]) -> Iterator[LoneApiServer]:
    """`authentication`: an AuthenticationConfiguration."""
    port, etcd_port, peer_port = _free_ports(3)
    plan = cluster_plan(0, programs=build.programs(), api_port=port)
    state = ClusterFolder(folder)
    state.prepare()
    identities.create(state, plan)
    components.write_configuration(plan, state)
    (folder / "authentication.json").write_text(json.dumps(authentication))
    client = f"https://127.0.0.1:{etcd_port}"
    etcd = [
        *components.etcd(plan, state),
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls=http://127.0.0.1:{peer_port}",
    ]
    server = [
        *(word.replace("https://127.0.0.1:2379", client) for word in components.apiserver(plan, state)),
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--authentication-config={folder}/authentication.json",
    ]
    with ExitStack() as started:
        for name, command in (("etcd", etcd), ("kube-apiserver", server)):
            log = started.enter_context((state.logs / f"{name}.log").open("wb"))
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
            started.callback(process.wait)
            started.callback(process.kill)
        admin = Api.from_pki("127.0.0.1", port, state.pki)
        until = time.monotonic() + stretched(START_S)
        while not admin.ready():
            said = (state.logs / "kube-apiserver.log").read_text()[-2000:]
            assert process.poll() is None, said
            assert time.monotonic() < until, said
            time.sleep(0.2)
        yield LoneApiServer(f"https://127.0.0.1:{port}", state.pki / "ca.crt", admin)


def _free_ports(number: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
