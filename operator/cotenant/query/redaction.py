"""What an answer shows of other tenants: if the caller may not read a job's namespace, the job has a size and
no name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from cotenant.core.model.formatting import format_gpus
from cotenant.core.model.measure import Amounts
from cotenant.core.model.objects import WHOLE, Gpu, Job, JobKey, Placement

Sees: TypeAlias = Callable[[str], bool]
"""Namespace → whether the caller may read TrainingJobs there."""

ANONYMOUS: Final = "a job of another tenant"
_KEY: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?/[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?")
"""`namespace/name` in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMention:
    """A job in an answer about another one."""

    job: JobKey
    """Empty if the caller may not know it."""
    namespace: str
    queue: str
    asks: str
    """`4 GPUs of H100`."""
    why: str = ""
    """Its role in the answer: a clause without its name."""

    def as_seen(self, sees: Sees) -> JobMention:
        if sees(self.namespace):
            return self
        return JobMention(job="", namespace="", queue="", asks=self.asks, why=self.why)


def size_of(job: Job, gpus: Mapping[str, Gpu]) -> str:
    """What a job holds, or asks for: GPUs and classes. `gpus`: by UUID."""
    if job.placement is not None:
        held = sorted({gpus[uuid].gpu_class for uuid in uuids_of(job.placement) & gpus.keys()})
        return _gpus(held_milli(job.placement, gpus), held)
    each = WHOLE * job.gpu.count
    if job.gpu.is_share:
        each = max(job.gpu.memory_milli or 0, job.gpu.compute_milli or 0) * job.gpu.count
        if not each:
            return f"{job.workers_min * job.gpu.count} × {job.gpu.memory_mib or 0} MiB of a GPU"
    return _gpus(each * job.workers_min, job.gpu.classes)


def uuids_of(placement: Placement) -> frozenset[str]:
    return frozenset(uuid for part in placement.nodes for uuid in part.uuids)


def redacted(text: str, namespaces: Collection[str], sees: Sees) -> str:
    """The text without the names of jobs whose namespace is one of these and is not visible."""

    def shown(found: re.Match[str]) -> str:
        namespace = found.group().partition("/")[0]
        return ANONYMOUS if namespace in namespaces and not sees(namespace) else found.group()

    return _KEY.sub(shown, text)


def mentioned(text: str, namespaces: Collection[str]) -> set[str]:
    """Those of the namespaces of which the text names a job."""
    found = (match.group().partition("/")[0] for match in _KEY.finditer(text))
    return {namespace for namespace in found if namespace in namespaces}


def held_milli(placement: Placement, gpus: Mapping[str, Gpu]) -> int:
    """Milli-GPU that the placement holds, as quotas count it: of each share the larger part."""
    grants = (grant for part in placement.nodes for rank in part.ranks for grant in rank.gpus)
    return sum(
        one.compute_milli
        if (gpu := gpus.get(one.uuid)) is None
        else Amounts.of_share(one.memory_mib, one.compute_milli, gpu.memory_mib).milli
        for one in grants
    )


def _gpus(milli: int, classes: Iterable[str]) -> str:
    number = format_gpus(milli)
    noun = "GPU" if milli <= WHOLE else "GPUs"
    named = " or ".join(classes)
    return f"{number} {noun} of {named}" if named else f"{number} {noun}"
