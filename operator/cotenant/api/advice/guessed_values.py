"""Values that newcomers give to fields of another shape or with other words: one table, by model and field.

`GUESSED_SHAPES` reads a value of the wrong type, `MOVED_VALUES` one that belongs into another field, `RULED_VALUES` one
that breaks a rule; `SYNONYMS` are other systems' words for the values of an enumeration.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from cotenant.api.advice import carried_over, pod_templates
from cotenant.api.scalars import respellings

_PROGRAM: Final = {"command": pod_templates.PROGRAM}
_CLAIM: Final = {"claimName": "data"}


def _below(key: str, read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Value that is read goes into an object as its field `key`."""

    def into(value: Any) -> Any:
        found = read(value)
        return None if found is None else {key: found}

    return into


def _runtime(value: Any) -> dict[str, Any] | None:
    """ "train:main" is a function, anything else a command."""
    function = value if isinstance(value, str) and ":" in value else None
    if function and carried_over.entrypoint(function):
        return {"entrypoint": carried_over.entrypoint(function)}
    words = carried_over.command(value)
    return {"command": words} if words else None


def _resources(value: Any) -> dict[str, Any] | None:
    """16Gi is memory, 4 are CPUs."""
    cpu = carried_over.counted(value)
    if cpu is not None:
        return {"cpu": cpu}
    size = pod_templates.amount_of_memory(value) if isinstance(value, str) else None
    return {"memory": size} if size else None


def _checkpoint(value: Any) -> dict[str, Any] | None:
    return {"path": value} if isinstance(value, str) and "://" in value else None


def _quotas(value: Any) -> list[dict[str, Any]] | None:
    """8 → one line; {H100: 8} → one for every class; {guaranteed: 8} → that line in a list."""
    if isinstance(value, Mapping) and value:
        counts = {key: respellings.decimal(inner) for key, inner in value.items()}
        lines = {"guaranteed", "limit", "lendable", "gpuClass", "zone", "memoryLimit"}
        if value.keys() <= lines:
            return [dict(value)]
        good = carried_over.names(list(counts)) and None not in counts.values()
        return [{"gpuClass": key, "guaranteed": count} for key, count in counts.items()] if good else None
    count = respellings.decimal(value)
    return [{"guaranteed": count}] if count is not None else None


def _labels(value: Any) -> dict[str, str] | None:
    """["team=a"] → {team: a}, {team: 1} → {team: "1"}."""
    if isinstance(value, list) and value and all(isinstance(one, str) and "=" in one for one in value):
        return dict(one.split("=", 1) for one in value)
    return None


def _budget(value: Any) -> dict[str, Any] | None:
    hours = respellings.decimal(value)
    return None if hours is None else {"gpuHours": hours, "period": "Month"}


_Reader = Callable[[Any], Any]
_ANY_NAME: Final[_Reader] = carried_over.name

GUESSED_SHAPES: Final[Mapping[tuple[str, str], _Reader]] = {
    ("TrainingJob", "metadata"): _below("name", _ANY_NAME),
    ("TrainingJobSpec", "gpu"): carried_over.gpu,
    ("TrainingJobSpec", "resources"): _resources,
    ("TrainingJobSpec", "runtime"): _runtime,
    ("TrainingJobSpec", "checkpoint"): _checkpoint,
    ("TrainingJobSpec", "topology"): _below(
        "level", carried_over.one_of({"node": "node", "rack": "rack", "zone": "zone"})
    ),
    ("TrainingJobSpec", "spread"): _below(
        "level", carried_over.one_of({"node": "node", "rack": "rack", "zone": "zone"})
    ),
    ("Runtime", "command"): carried_over.command,
    ("Runtime", "args"): carried_over.arguments,
    ("Runtime", "env"): carried_over.environment,
    ("Runtime", "volumes"): carried_over.volumes,
    ("Runtime", "code"): lambda value: {"configMap": {"name": value}} if carried_over.name(value) else None,
    ("Runtime", "entrypoint"): carried_over.entrypoint,
    ("Runtime", "parameterServer"): _below("servers", carried_over.counted),
    ("Runtime", "env[]"): carried_over.variable,
    ("Runtime", "volumes[]"): carried_over.volume,
    ("QueueSpec", "quotas[]"): _below("guaranteed", respellings.decimal),
    ("Code", "configMap"): _below("name", _ANY_NAME),
    ("Code", "persistentVolumeClaim"): carried_over.claim,
    ("Volume", "configMap"): _below("name", _ANY_NAME),
    ("Volume", "persistentVolumeClaim"): carried_over.claim,
    ("Volume", "secret"): _below("secretName", _ANY_NAME),
    ("Volume", "emptyDir"): _below("sizeLimit", respellings.memory),
    ("CheckpointVolume", "persistentVolumeClaim"): carried_over.claim,
    ("Checkpoint", "volume"): _below("persistentVolumeClaim", carried_over.claim),
    ("Tracking", "mlflow"): lambda value: {"trackingUri": value} if isinstance(value, str) and "://" in value else None,
    ("Tracking", "tensorBoard"): lambda value: {} if value is True else None,
    ("Queue", "metadata"): _below("name", _ANY_NAME),
    ("QueueSpec", "quotas"): _quotas,
    ("QueueSpec", "users"): _below("limit", respellings.decimal),
    ("QueueSpec", "maxPending"): _below("jobs", carried_over.counted),
    ("QueueSpec", "budget"): _budget,
    ("QueueSpec", "fairShare"): _below("halfLife", respellings.duration),
    ("QueueSpec", "namespaceSelector"): _below("matchLabels", _labels),
    ("ObjectMeta", "labels"): _labels,
}
"""(model, field) → reader of a value of another type; None from it: nothing can be made of the value."""


def _count_of_all(value: Any) -> dict[str, Any] | None:
    """1, "1.0" and "100%" of a GPU are one whole GPU."""
    number = carried_over.counted(value) if not isinstance(value, str) or "%" not in value else value.strip() == "100%"
    return {".count": 1} if number == 1 else None


def _word(value: Any) -> str | None:
    """The name of an object, and not a number."""
    return carried_over.name(value) if carried_over.whole(value) is None else None


def _elastic(value: Any) -> dict[str, Any] | None:
    """{min: 1, max: 4} → two fields."""
    if not isinstance(value, Mapping):
        return None
    most, least = carried_over.counted(value.get("max")), carried_over.counted(value.get("min"))
    return {".workers": most, ".minWorkers": least} if most and least else None


def _fraction_of_one(value: Any) -> dict[str, Any] | None:
    part = respellings.fraction(value)
    return {".memoryFraction": part} if part is not None and carried_over.whole(value) is None else None


def _script(value: Any) -> dict[str, Any] | None:
    """ "train.py" and ["python", "train.py"] are commands, "train.main" is not."""
    is_command = isinstance(value, list) or (
        isinstance(value, str) and (" " in value or value.endswith((".py", ".sh")))
    )
    words = carried_over.command(value) if is_command else None
    return {".command": words} if words else None


MOVED_VALUES: Final[Mapping[tuple[str, str], Callable[[Any], Mapping[str, Any] | None]]] = {
    ("GpuSpec", "memoryFraction"): _count_of_all,
    ("GpuSpec", "count"): _fraction_of_one,
    ("GpuSpec", "memory"): lambda value: _fraction_of_one(value) if isinstance(value, str) and "%" in value else None,
    ("Runtime", "entrypoint"): _script,
    ("TrainingJobSpec", "workers"): _elastic,
    ("TrainingJobSpec", "priority"): _below(".priorityClassName", _word),
}
"""(model, field) → reader of a value that belongs into another field, which is written instead."""


def _object_name(document: Any, *, longest: int, first: str) -> dict[str, str] | None:
    """Name of a document in small letters, digits and dashes, with a letter first where it needs one."""
    given = document.get("metadata", {}).get("name") if isinstance(document, Mapping) else None
    name = re.sub(r"[^a-z0-9]+", "-", given.lower()).strip("-") if isinstance(given, str) else ""
    made = (name if re.match(first, name) else f"job-{name}")[:longest].strip("-")
    return {"metadata.name": made} if name else None


RULED_VALUES: Final[Mapping[tuple[str, str], Callable[[Any], Mapping[str, Any] | None]]] = {
    ("TrainingJob", "metadata.name"): lambda document: _object_name(document, longest=50, first=r"[a-z]"),
    ("Queue", "metadata.name"): lambda document: _object_name(document, longest=63, first=r"[a-z0-9]"),
}
"""(model, field of a rule that does not hold) → reader of the object, for rules whose words cannot say the value."""

SYNONYMS: Final[Mapping[tuple[str, str], Mapping[Any, str]]] = {
    ("GpuSpec", "sharing"): {
        "exclusive": "Never",
        "none": "Never",
        "false": "Never",
        "true": "Queue",
        "shared": "Queue",
        "all": "Any",
    },
    ("Runtime", "framework"): {"torch": "pytorch", "tf": "tensorflow", "tensorflow2": "tensorflow", "flax": "jax"},
    ("Runtime", "strategy"): {
        "ddp": "AllReduce",
        "ring": "AllReduce",
        "mirrored": "AllReduce",
        "ps": "ParameterServer",
    },
    ("Runtime", "precision"): {
        "float32": "fp32",
        "float16": "fp16",
        "half": "fp16",
        "bfloat16": "bf16",
        "mixed": "bf16",
        "16": "fp16",
        "32": "fp32",
    },
    ("Runtime", "gpuVisibility"): {"all": "Pod", "worker": "Rank", "node": "Pod"},
    ("ParameterServer", "update"): {"sync": "Synchronous", "async": "Asynchronous"},
    ("TopologySpec", "level"): {
        "host": "node",
        "hostname": "node",
        "kubernetes.io/hostname": "node",
        "topology.kubernetes.io/zone": "zone",
    },
    ("TopologySpec", "mode"): {
        "hard": "Required",
        "strict": "Required",
        "soft": "Preferred",
        "besteffort": "Preferred",
    },
    ("SpreadSpec", "level"): {
        "host": "node",
        "hostname": "node",
        "kubernetes.io/hostname": "node",
        "topology.kubernetes.io/zone": "zone",
    },
    ("SpreadSpec", "mode"): {
        "hard": "Required",
        "strict": "Required",
        "soft": "Preferred",
        "besteffort": "Preferred",
    },
    ("FairShare", "order"): {
        "fifo": "Age",
        "fcfs": "Age",
        "las": "LeastService",
        "srtf": "Predicted",
        "sjf": "Predicted",
    },
    ("QueueSpec", "consolidation"): {"true": "Allowed", "false": "Never", "always": "Allowed", "enabled": "Allowed"},
    ("Budget", "period"): {
        "daily": "Day",
        "weekly": "Week",
        "monthly": "Month",
        "1d": "Day",
        "24h": "Day",
        "7d": "Week",
        "30d": "Month",
    },
    ("Budget", "carryOver"): {"true": "Unused", "false": "None", "unspent": "Unused", "all": "Unused", "never": "None"},
    ("SelectorRequirement", "operator"): {"=": "In", "==": "In", "equals": "In", "!=": "NotIn"},
}
"""(model, field) → other systems' words, in lower case → the word that stands for them here."""
