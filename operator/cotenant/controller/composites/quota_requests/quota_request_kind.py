"""QuotaRequest as a composite that owns nothing: its status follows from the queues of the object cache."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cotenant.api.conversion.to_core import parse_quota_request, to_queue
from cotenant.controller.client.kube import QUOTA_REQUESTS
from cotenant.controller.composites.composite import Composite, Observed, Writes
from cotenant.controller.composites.quota_requests.request_step import next_step
from cotenant.controller.informers.cache import ObjectCache
from cotenant.core.model.objects import TenantQueue

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class QuotaRequestKind(Composite):
    resource = QUOTA_REQUESTS
    kind = "QuotaRequest"

    cache: ObjectCache
    labelled_only: bool
    """Queues serve only namespaces with the label of a tenant."""
    _read: dict[int, Mapping[str, TenantQueue]] = field(default_factory=dict)
    """Revision of the tenancy → its queues. Only the last revision is kept."""

    def decide(self, observed: Observed, now: float) -> Writes:
        request = parse_quota_request(observed.document)
        writes = next_step(request, self._queues(), now, len(self.cache.quota_requests))
        # The answer is the administrator's and is written back as it stands.
        answer = {"approval": observed.status["approval"]} if "approval" in observed.status else {}
        return replace(writes, status={**(writes.status or {}), **answer})

    def _queues(self) -> Mapping[str, TenantQueue]:
        """Queues without what they have spent: an answer does not depend on it."""
        revision = self.cache.tenancy_revision
        if (known := self._read.get(revision)) is not None:
            return known
        self._read.clear()
        found = self._read[revision] = dict[str, TenantQueue]()
        for name, document in self.cache.queues.items():
            try:
                found[name] = to_queue(document, namespaces=self.cache.namespaces, labelled_only=self.labelled_only)
            except Exception:  # it grants nothing, and its own status names why
                log.debug("queue %s cannot be read", name)
        return found
