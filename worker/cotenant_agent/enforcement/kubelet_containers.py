"""Pods whose containers run, according to the node's kubelet: for an agent that does not see the host's /proc.

The kubelet's summary of statistics lists what its container runtime runs, with the uid of the pod, also of pods without
an object. It is asked at the Node's own address, and only with a certificate of the cluster's CA.
"""

from __future__ import annotations

import http.client
import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from cotenant.contract.decoding.bounded_json import Bounds, Malformed, parse

log = logging.getLogger("cotenant.agent.kubelet")

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
PORT: Final = 10250
TIMEOUT_S: Final = 5.0
BOUNDS: Final = Bounds(bytes_max=16 * 1024 * 1024, depth_max=64, values_max=4_000_000)


class KubeletContainers:
    """`node` returns the v1 Node as a dictionary. `account` has the token and the CA of a service account."""

    def __init__(self, node: Callable[[], dict[str, Any]], account: Path = ACCOUNT, port: int = PORT) -> None:
        self._node, self._account, self._port = node, account, port
        self._logged = ""

    def running_pods(self) -> frozenset[str] | None:
        """Uids of the pods with a running container; None if the kubelet cannot be asked."""
        try:
            found = pods_in(self._summary())
        except Exception as error:  # whatever is wrong with the answer, nothing is known then
            text = f"{type(error).__name__}: {error}"[:300]
            if text != self._logged:
                log.warning("the kubelet does not say which pods run: %s", text)
            self._logged = text
            return None
        self._logged = ""
        return found

    def _summary(self) -> Any:
        token = (self._account / "token").read_text().strip()
        trust = ssl.create_default_context(cafile=str(self._account / "ca.crt"))
        connection = http.client.HTTPSConnection(
            internal_address(self._node()), self._port, context=trust, timeout=TIMEOUT_S
        )
        try:
            headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
            connection.request("GET", "/stats/summary?only_cpu_and_memory=true", headers=headers)
            answer = connection.getresponse()
            if answer.status != 200:
                raise OSError(f"HTTP {answer.status} {answer.reason}")
            text = answer.read(BOUNDS.bytes_max + 1)
        finally:
            connection.close()
        found = parse(text, BOUNDS)
        if isinstance(found, Malformed):
            raise OSError(f"the answer {found.reason}")
        return found


def internal_address(node: dict[str, Any]) -> str:
    """The first InternalIP of a v1 Node; raises OSError without one."""
    for address in (node.get("status") or {}).get("addresses") or ():
        if address.get("type") == "InternalIP":
            return str(address["address"])
    raise OSError("the Node has no InternalIP")


def pods_in(summary: Any) -> frozenset[str]:
    return frozenset(str(pod["podRef"]["uid"]) for pod in summary.get("pods") or () if pod.get("containers"))
