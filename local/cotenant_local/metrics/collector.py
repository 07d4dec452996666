"""Scrapes every kubelet every few seconds, and keeps the rates between the last two different scrapes."""

import http.client
import ssl
import sys
import threading
import time
from typing import Final

from cotenant_local.host.cluster_folder import ClusterFolder
from cotenant_local.host.cluster_plan import ClusterPlan
from cotenant_local.metrics import rates
from cotenant_local.metrics.rates import Key, Sample, UsageRate

INTERVAL_S: Final = 5.0
KUBELET_PORT: Final = 10250


class MetricsCollector:
    """`nodes` maps a node's name to the usage of it and its containers. A node that does not answer is left out."""

    def __init__(self, state: ClusterFolder, plan: ClusterPlan) -> None:
        self._addresses = {node.name: node.address for node in plan.nodes}
        self._tls = ssl.create_default_context(cafile=str(state.pki / "ca.crt"))
        self._tls.load_cert_chain(state.pki / "metrics.crt", state.pki / "metrics.key")
        self._last: dict[str, dict[Key, Sample]] = {}
        self.nodes: dict[str, dict[Key, UsageRate]] = {}

    def start(self) -> None:
        for name in self._addresses:
            threading.Thread(target=self._follow, args=(name,), name=f"metrics of {name}", daemon=True).start()

    def _follow(self, name: str) -> None:
        while True:
            try:
                self._record(name, rates.parse(self._scrape(name)))
            except (OSError, ValueError, http.client.HTTPException) as error:
                print(f"metrics of {name}: {error}", file=sys.stderr, flush=True)
                self.nodes.pop(name, None)
                self._last.pop(name, None)
            time.sleep(INTERVAL_S)

    def _record(self, name: str, seen: dict[Key, Sample]) -> None:
        if seen == self._last.get(name):  # the kubelet measures at its own pace
            return
        fresh = rates.between(self._last.get(name, {}), seen)
        kept = {key: old for key, old in self.nodes.get(name, {}).items() if key in seen}
        self.nodes[name] = {**kept, **fresh}
        self._last[name] = seen

    def _scrape(self, name: str) -> str:
        connection = http.client.HTTPSConnection(
            self._addresses[name], KUBELET_PORT, context=self._tls, timeout=2 * INTERVAL_S
        )
        try:
            connection.request("GET", "/metrics/resource")
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        if answer.status != 200:
            raise OSError(f"{answer.status} {answer.reason}: {text[:200]}")
        return text
