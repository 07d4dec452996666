"""Reports GPUs that jobs found much slower than their others, by annotations on the GPUNode.

The finding is made in the tenant's pod, before step 0. So only its figures are used, and only for GPUs that the job
holds. Its author is noted for the administrator, who removes notes with `cotenant.dev/uncordon`. If several tenants
agree (`slow_gpu_reports`), the node's agent shows the GPU as slow. It stays in use: it is handed out last, and the
message of an admission names it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cotenant import contract, names
from cotenant.api.resources.gpunodes import GPUNode
from cotenant.controller.client.kube import GPU_NODES, FencedError, Kube, UnreachableError
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import JobMemories
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.reports.slow_gpu_reports import Reporter, changes
from cotenant.core.model.objects import Placement

log = logging.getLogger(__name__)

LOOK_EVERY_S = 60.0


@dataclass(frozen=True, slots=True)
class Finding:
    node: str
    uuid: str
    text: str


def findings_of(record: JobRecord, progress: contract.Progress, gpu_nodes: Mapping[str, GPUNode]) -> Iterator[Finding]:
    """Slow GPUs of this job. A check on CPUs shows nothing of a GPU, unless the GPU is simulated."""
    placement = record.status.placement
    for node in placement.nodes if placement else ():
        seen = gpu_nodes.get(node.node)
        if seen is None or not (progress.checked_on == "cuda" or seen.status.simulated):
            continue
        granted = {str(rank.rank): {gpu.uuid for gpu in rank.gpus} for rank in node.ranks}
        for rank, (own, usual) in sorted(progress.slow_ranks.items()):
            text = f"{record.key}: rank {rank} needed {own:.1f} ms for what its other ranks did in {usual:.1f} ms"
            # A rank that sees all GPUs of its pod was checked on its own one.
            for uuid in sorted(granted.get(rank, set()).intersection(progress.observed_gpus.get(rank, ()))):
                yield Finding(node.node, uuid, text)


def slow_gpu_notice(placement: Placement, gpu_nodes: Mapping[str, GPUNode]) -> str:
    """Addition to the message of an admission that hands out suspect GPUs; empty if it hands out none."""
    found = []
    for part in placement.nodes:
        held, seen = part.uuids, gpu_nodes.get(part.node)
        found += [
            f"{gpu.uuid} on {part.node} ({gpu.health})"
            for gpu in (seen.status.gpus if seen else ())
            if gpu.uuid in held and gpu.healthy and gpu.health.startswith(names.HEALTH_SLOW)
        ]
    if not found:
        return ""
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return f"; no place as good was free without a GPU that is suspect: {found[0]}{more}"


@dataclass(slots=True)
class SlowGpus:
    kube: Kube
    cache: ObjectCache
    memories: JobMemories
    clock: Callable[[], float] = time.time
    _looked_at: float = 0.0

    async def report(self, record: JobRecord, progress: contract.Progress) -> None:
        """Note on the GPUNodes what was found, each GPU once for a running job."""
        reported = self.memories[record.id].reported_slow_gpus
        if record.job is None:
            return
        who = Reporter(record.job.spec.queue, record.namespace)
        for found in findings_of(record, progress, self.cache.nodes.gpu_nodes):
            if found.uuid not in reported and await self._write(found.node, [(found.uuid, who)]):
                reported.add(found.uuid)
                log.warning("GPU %s on %s was found slow: %s", found.uuid, found.node, found.text)

    async def fade(self) -> None:
        """Withdraw reports that are too old to count, at most once a minute."""
        if self.clock() - self._looked_at < LOOK_EVERY_S:
            return
        self._looked_at = self.clock()
        for node in list(self.cache.nodes.gpu_nodes):
            await self._write(node, ())

    async def _write(self, node: str, found: Sequence[tuple[str, Reporter]]) -> bool:
        """True if the GPUNode already has this annotation."""
        seen = self.cache.nodes.gpu_nodes.get(node)
        change = {} if seen is None else changes(seen.metadata.annotations, found, self.clock())
        if not change:
            return seen is not None
        try:
            reply = await self.kube.patch(GPU_NODES, node, {"metadata": {"annotations": change}})
        except FencedError:
            return False  # the replica that leads reports it
        except UnreachableError as error:
            log.warning("slow GPUs are not written to GPUNode %s yet: %s", node, error)
            return False
        if reply.done:
            self.cache.put(GPU_NODES, reply.document)
        return True
