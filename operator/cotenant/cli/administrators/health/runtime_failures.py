"""GPU nodes whose container runtime fails jobs of two tenants. The operator alone knows them, and says so in Events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from operator import itemgetter
from typing import Any, Final

from cotenant.cli.administrators.health.diagnoses import Diagnosis, SeenCluster, Severity

RUNTIME_FAILING: Final = "/api/v1/namespaces/default/events?fieldSelector=reason%3DRuntimeFailing"
RECENT_S: Final = 900.0
"""Most seconds for which the operator keeps jobs off such a node, unless `operator.settings` says otherwise."""


def failing_nodes(events: Iterable[Mapping[str, Any]], now: datetime) -> dict[str, str]:
    """Node → what its newest Event says, with its age, if that is recent."""
    found: dict[str, str] = {}
    dated = [(str(one["lastTimestamp"]), one) for one in events if one.get("lastTimestamp")]
    for at, event in sorted(dated, key=itemgetter(0)):
        age_s = (now - datetime.fromisoformat(at)).total_seconds()
        if age_s <= RECENT_S:
            minutes = max(0, int(age_s)) // 60
            found[event["involvedObject"]["name"]] = f"RuntimeFailing ({minutes} min ago): {event['message']}"
    return found


def runtime_failures(cluster: SeenCluster) -> Iterator[Diagnosis]:
    for node, said in sorted(failing_nodes(cluster.items("failingNodes"), cluster.now).items()):
        yield Diagnosis(
            Severity.WARNING, f"node {node}", said,
            f"nvidia-smi and journalctl -u kubelet on {node}; docs/troubleshooting.md#an-attempt-that-never-ran",
        )  # fmt: skip
