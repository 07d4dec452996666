"""Names that administrators give to fields of a Queue: from Kueue, Volcano and ResourceQuotas; and of a GPUNode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cotenant.api.advice import carried_over, pod_templates
from cotenant.api.advice.guessed_name import GuessedName, left_out, renamed
from cotenant.api.scalars import respellings

_QUEUE: Final = (
    renamed("cohort cohortName parentQueue", ".parent", "all", carried_over.name),
    renamed("namespace", ".namespaces", ["team-a"], lambda value: [value] if carried_over.name(value) else None),
    renamed("gpus gpu guaranteed guarantee deserved nominalQuota capacity min", ".quotas", [{"guaranteed": 8}],
        lambda value: [{"guaranteed": found}] if (found := respellings.decimal(value)) is not None else None),
    renamed("limit max maximum capability hard", ".quotas", [{"guaranteed": 4, "limit": 8}],
        lambda value: [{"limit": found}] if (found := respellings.decimal(value)) is not None else None),
    renamed("resourceGroups resources resourceQuota flavors", ".quotas", [{"gpuClass": "H100", "guaranteed": 8}],
        lambda value: None, "one line for every class of GPUs"),
    renamed("maxPerUser userLimit perUser", ".users", {"limit": 4},
        lambda value: {"limit": found} if (found := respellings.decimal(value)) is not None else None),
    renamed("gpuHours", ".budget", {"gpuHours": 100, "period": "Month"},
        lambda value: {"gpuHours": found, "period": "Month"} if (found := respellings.decimal(value)) else None),
    renamed("selector labelSelector", ".namespaceSelector", {"matchLabels": {"team": "a"}}),
    renamed("halfLife", ".fairShare", {"halfLife": "24h"},
        lambda value: {"halfLife": found} if (found := respellings.duration(value)) else None),
    renamed("minRuntime preemptMinRuntime", ".protectedRuntime", "10m", respellings.duration),
    renamed("name", "metadata.name", "team-a", carried_over.name),
    left_out("children", "a tree is written from below: name this queue as parent in the others"),
    renamed("maxJobs maxPendingJobs maxQueued", ".maxPending", {"jobs": 1000},
        lambda value: {"jobs": found} if (found := carried_over.counted(value)) else None),
    renamed("priority", ".maxPriority", 1000),
    left_out("preemption reclaimable queueingStrategy flavorFungibility admissionChecks stopPolicy",
         "who borrows gives back by itself; shares are set by weight, and what is lent by quotas[].lendable"),
)  # fmt: skip

_QUOTA: Final = (
    renamed("class flavor gpuType type name model gpu", ".gpuClass", "H100",
        lambda value: value if carried_over.names(value) and isinstance(value, str) else None),
    renamed("nominalQuota quota count gpus min minimum reserved capacity guarantee deserved amount nvidia.com/gpu",
        ".guaranteed", 8, respellings.decimal),
    renamed("userName username owner perUser", ".user", "*"),
    renamed("max maximum cap ceiling hard capability", ".limit", 8, respellings.decimal),
    renamed("borrowingLimit", ".limit", 8, lambda value: None, "limit counts what is guaranteed and what is borrowed"),
    renamed("lendingLimit", ".lendable", 8, respellings.decimal),
    renamed("memory gpuMemory", ".memoryLimit", "640Gi", pod_templates.amount_of_memory),
)  # fmt: skip
_USERS: Final = (renamed("max maximum gpus perUser", ".limit", 4, respellings.decimal),)
_BUDGET: Final = (
    renamed("hours limit amount gpuhours", ".gpuHours", 100, respellings.decimal),
    renamed("cost price dollars euros usd eur", ".money", 2500, respellings.decimal),
    renamed("rollover carryover rollOver", ".carryOver", "Unused"),
)
_META: Final = (renamed("tags", ".labels", {"team": "a"}),)
_GPU_NODE: Final = (
    left_out(
        "spec", "a GPUNode is written by the agent of its node; to take GPUs out of service, cordon or taint the Node"
    ),
)

GUESSED_OF_QUEUES: Final[Mapping[str, tuple[GuessedName, ...]]] = {
    "QueueSpec": _QUEUE,
    "QuotaSpec": _QUOTA,
    "UserLimits": _USERS,
    "Budget": _BUDGET,
    "ObjectMeta": _META,
    "GPUNode": _GPU_NODE,
}
"""Name of the model → names that are no fields of it."""
