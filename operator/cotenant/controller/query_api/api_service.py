"""The operator's own APIService: the leader writes whom the API server trusts, and reports if it cannot be reached.

An unavailable APIService breaks more than questions: Kubernetes finishes no deletion of a namespace meanwhile.
"""

from __future__ import annotations

import base64
import logging
import time
from collections.abc import Callable
from dataclasses import InitVar, dataclass
from typing import Any, Final, Protocol

from cotenant import names
from cotenant.controller.client.kube import API_SERVICES, Kube
from cotenant.controller.informers.job_record import JobId
from cotenant.controller.leader.leadership import Leadership
from cotenant.controller.lifecycle.observation import EventToRecord
from cotenant.controller.query_api.own_certificate import OwnCertificate
from cotenant.controller.telemetry.metrics import Metrics

log = logging.getLogger(__name__)

NAME: Final = f"{names.QUERY_VERSION}.{names.QUERY_GROUP}"
PATIENCE_S: Final = 30.0
"""How long the APIService may be unavailable, as after a change of leader, before it is reported."""
GONE: Final = (
    f"APIService {NAME} is not there, so kubectl cotenant why and its like are not answered: GitOps tools leave such"
    " kinds out by their own settings (docs/platforms.md), or set query.enabled=false"
)


class Recorder(Protocol):
    def record(self, job: JobId, event: EventToRecord, *, kind: str, api_version: str) -> None: ...


@dataclass(slots=True, kw_only=True)
class ApiServiceKeeper:
    kube: Kube
    port: int
    recorder: Recorder
    metrics: Metrics
    leadership: InitVar[Leadership]
    own: OwnCertificate | None = None
    """None if the certificate is mounted, so that somebody else writes the bundle."""
    clock: Callable[[], float] = time.monotonic
    _unavailable_since: float | None = None
    _told: str = ""

    def __post_init__(self, leadership: Leadership) -> None:
        leadership.on_lost(self.forget)

    def forget(self) -> None:
        """Another replica leads and looks."""
        self._unavailable_since, self._told = None, ""
        self.metrics.query_available.set(0)

    async def look(self) -> None:
        found = await self.kube.get(API_SERVICES, NAME)
        if not found.done:
            self._tell(GONE, "")
            return
        await self._trust(found.document)
        condition = available(found.document)
        if condition is None:
            self._unavailable_since, self._told = None, ""
            self.metrics.query_available.set(1)
            return
        since = self._unavailable_since = self._unavailable_since or self.clock()
        if self.clock() - since >= PATIENCE_S:
            self._tell(unavailable(condition, self.port), found.document["metadata"].get("uid", ""))

    async def _trust(self, document: dict[str, Any]) -> None:
        """Have the API server trust this process's certificate."""
        if self.own is None:
            return
        bundle = base64.b64encode(self.own.bundle()).decode()
        if document["spec"].get("caBundle") == bundle:
            return
        version = document["metadata"]["resourceVersion"]
        body = {"metadata": {"resourceVersion": version}, "spec": {"caBundle": bundle}}
        reply = await self.kube.patch(API_SERVICES, NAME, body)
        if not reply.done:
            log.warning("the certificate of this replica was not written into APIService %s: %s", NAME, reply.message)

    def _tell(self, message: str, uid: str) -> None:
        """Report once in the log and as an Event for each outage; the metric shows it for as long as it lasts."""
        self.metrics.query_available.set(0)
        if message == self._told:
            return
        self._told = message
        log.error("%s", message)
        event = EventToRecord(reason="QueryAPIUnavailable", message=message, warning=True)
        api_version = f"{API_SERVICES.group}/{API_SERVICES.version}"
        self.recorder.record(JobId("", NAME, uid), event, kind="APIService", api_version=api_version)


def available(document: dict[str, Any]) -> dict[str, Any] | None:
    """The condition that makes it unavailable; None if it is available."""
    conditions = (document.get("status") or {}).get("conditions") or ()
    found = next((one for one in conditions if one.get("type") == "Available"), None)
    if found is not None and found.get("status") == "True":
        return None
    return dict(found or {"reason": "Unknown", "message": "the API server has not looked at it yet"})


def unavailable(condition: dict[str, Any], port: int) -> str:
    """The sentence about what is wrong and what to do."""
    said = f"{condition.get('reason', 'Unknown')}: {condition.get('message', '')}"[:400]
    return (
        f"the API server does not reach the operator's APIService {NAME} ({said}). Until it does, Kubernetes ends no"
        f" namespace of this cluster. Let the control plane reach TCP port {port} of pods on their nodes (private GKE:"
        " 443 and 10250 are open); where it reaches no pod network (EKS with an overlay) set operator.hostNetwork=true"
        ", another query.port and operator.settings.operator_cidrs; or set query.enabled=false (docs/platforms.md)"
    )
