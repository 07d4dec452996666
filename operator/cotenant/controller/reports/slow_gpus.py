"""Reports GPUs that a job found far slower than its others to their node's agent, by an annotation on the GPUNode.

The finding is made in the tenant's pod, before step 0. So only its figures are believed, and only of GPUs that the job
holds; the sentence is ours. The agent shows it to the administrator, who removes it with `cotenant.dev/uncordon`. A GPU
is never taken out of use by it: it is handed out last, and the message of an admission that gets it names it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cotenant import contract, names
from cotenant.api.resources.gpunodes import GPUNode
from cotenant.controller.client.kube import GPU_NODES, FencedError, Kube, UnreachableError
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import JobMemories
from cotenant.controller.informers.job_record import JobRecord
from cotenant.core.model.objects import Placement

log = logging.getLogger(__name__)


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
    """Addition to the message of an admission that hands out suspect GPUs; empty where it does not."""
    found = []
    for part in placement.nodes:
        held = {gpu.uuid for rank in part.ranks for gpu in rank.gpus}
        seen = gpu_nodes.get(part.node)
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

    async def report(self, record: JobRecord, progress: contract.Progress) -> None:
        """Annotate the GPUNodes of what was found, each GPU once for a running job."""
        reported = self.memories[record.id].reported_slow_gpus
        for found in findings_of(record, progress, self.cache.nodes.gpu_nodes):
            if found.uuid in reported:
                continue
            annotation = {f"{names.ANNOTATION_SUSPECT}/{found.uuid}": found.text}
            try:
                await self.kube.patch(GPU_NODES, found.node, {"metadata": {"annotations": annotation}})
            except FencedError:
                return  # the replica that leads reports it
            except UnreachableError as error:
                log.warning("a slow GPU is not written to GPUNode %s yet: %s", found.node, error)
                return
            reported.add(found.uuid)
            log.warning("GPU %s on %s is suspect: %s", found.uuid, found.node, found.text)
