"""When a pod's rules are in force."""

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cotenant_local.cluster.certificates import CertificateAuthority
from cotenant_local.cluster.identities import save_kubeconfig
from cotenant_local.runtime.isolation.pod_network import PodNetworkError
from cotenant_local.runtime.policies.enforcer import PolicyEnforcer


class Listener:
    """An API server that has been reached, but does not answer yet."""

    def __init__(self, folder: Path) -> None:
        authority = CertificateAuthority(folder, "ca")
        files = authority.issue("user", common_name="user")
        self.kubeconfig = folder / "kubeconfig"
        self.socket = socket.create_server(("127.0.0.1", 0))
        server = f"https://127.0.0.1:{self.socket.getsockname()[1]}"
        save_kubeconfig(self.kubeconfig, server, authority, files, "test")


@pytest.mark.looptime(start=0)
async def test_a_pod_does_not_start_before_its_policies_are_known(tmp_path: Path) -> None:
    api = Listener(tmp_path)
    enforcer = PolicyEnforcer(api.kubeconfig, dns="10.0.0.1", sandboxes=lambda: ())
    metadata = SimpleNamespace(name="web")
    sandbox: Any = SimpleNamespace(host_network=False, config=SimpleNamespace(metadata=metadata))
    with pytest.raises(PodNetworkError, match="pod web waits for its network policies: in 10 s the API server has not"):
        await enforcer.admit(sandbox)
    await enforcer.admit(SimpleNamespace(host_network=True))  # type: ignore[arg-type]  # no policy selects it
    api.socket.close()
