"""Holds a replica back until the cluster's CustomResourceDefinitions have what it writes.

With definitions of an older release the API server would drop parts of a status in silence. A replica that waits is not
ready, so a rolling update that forgot them stops, and the replicas of before go on deciding.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from cotenant import names
from cotenant.api.schema import crds
from cotenant.api.schema.kinds import RESOURCES
from cotenant.api.schema.served import lacking
from cotenant.controller.client.kube import CUSTOM_RESOURCE_DEFINITIONS, Kube, Outcome, UnreachableError

log = logging.getLogger(__name__)

EVERY_S: Final = 5.0
FIX: Final = "kubectl apply --server-side --force-conflicts -f charts/cotenant/crds/"


class Definitions:
    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self.problem = "the CustomResourceDefinitions have not been read yet"
        """Why this replica waits for definitions; empty once it need not wait."""

    async def wait(self) -> None:
        """Return once they have all that this release writes, or may not be read."""
        while problem := await self._look():
            if problem != self.problem:
                log.error("%s; this replica waits. %s", problem, FIX)
            self.problem = problem
            await asyncio.sleep(EVERY_S)
        self.problem = ""

    async def _look(self) -> str:
        try:
            for resource in RESOURCES:
                name = f"{resource.plural}.{names.GROUP}"
                reply = await self._kube.get(CUSTOM_RESOURCE_DEFINITIONS, name)
                if reply.outcome is Outcome.REFUSED:
                    log.warning(
                        "%s may not be read (%s): whether it is of this release is not known", name, reply.message
                    )
                    return ""
                if not reply.done:
                    return f"the CustomResourceDefinition {name} is not there"
                if lacks := lacking(crds.document(resource), reply.document):
                    return f"the CustomResourceDefinition {name} is of an older release: {lacks}"
        except UnreachableError as error:
            return f"the CustomResourceDefinitions cannot be read: {error}"
        return ""
