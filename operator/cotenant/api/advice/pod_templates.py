"""Pods, containers and their resources as Kubernetes' Jobs and Kubeflow write them → fields of a TrainingJob.

What a container is reads off to: image, command, arguments, variables, CPU, memory, GPUs. The rest of a pod is the
operator's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from cotenant.api.advice import carried_over
from cotenant.api.scalars import quantities, respellings

PROGRAM = ["python", "train.py"]
_DEPTH = 8
_READ: Mapping[str, Callable[[Any], Any]] = {
    "image": carried_over.text,
    "command": carried_over.command,
    "args": carried_over.arguments,
    "env": carried_over.environment,
}


def amount_of_memory(value: Any) -> str | None:
    """The amount as it stands where it has a unit; else with the one that was meant."""
    if isinstance(value, str) and re.fullmatch(quantities.MEMORY, value) and not value[-1].isdigit():
        return value
    return respellings.memory(value)


def amount_of_cpu(value: Any) -> str | int | None:
    fits = isinstance(value, str) and re.fullmatch(quantities.DECIMAL, value)
    return value if fits else respellings.decimal(value)


def resources(value: Any) -> dict[str, Any] | None:
    """{cpu: 4, nvidia.com/gpu: 1}, also below `requests` and `limits` → {".cpu": 4, "spec.gpu": {count: 1}}."""
    if not isinstance(value, Mapping):
        return None
    flat = {**_part(value, "requests"), **_part(value, "limits"), **value}
    made = {
        ".cpu": amount_of_cpu(flat.get("cpu")),
        ".memory": amount_of_memory(flat.get("memory")),
        "spec.gpu.count": next((carried_over.counted(flat[key]) for key in flat if key.endswith("/gpu")), None),
    }
    return {path: found for path, found in made.items() if found is not None} or None


def _part(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    inner = value.get(key)
    return inner if isinstance(inner, Mapping) else {}


def program(value: Any) -> dict[str, Any] | None:
    """Fields of a job out of the first container anywhere in a pod template or a list of them."""
    container = _first_container(value, _DEPTH)
    if container is None:
        return None
    made: dict[str, Any] = {}
    for key, read in _READ.items():
        found = read(container[key]) if key in container else None
        if found is not None:
            made[f"spec.runtime.{key}"] = found
    if "spec.runtime.command" not in made:
        made["spec.runtime.command"] = PROGRAM
    for path, found in (resources(container.get("resources")) or {}).items():
        made[path if path.startswith("spec.") else f"spec.resources{path}"] = found
    return made


def roles(value: Any) -> dict[str, Any] | None:
    """Kubeflow's `{Master: {replicas: 1, template: …}, Worker: {replicas: 3}}` → four workers of one program."""
    if not isinstance(value, Mapping):
        return None
    counts = [carried_over.whole(role.get("replicas", 1)) or 0 for role in value.values() if isinstance(role, Mapping)]
    made = program(value) or {}
    return {"spec.workers": sum(counts), **made} if sum(counts) else made or None


def policy(value: Any) -> dict[str, Any] | None:
    """Kubeflow's `runPolicy`, and a Job's limits, each as the field of its own that it has here."""
    if not isinstance(value, Mapping):
        return None
    made = {
        "spec.retries": carried_over.whole(value.get("backoffLimit")),
        "spec.maxRuntime": respellings.duration(value.get("activeDeadlineSeconds")),
        "spec.ttlAfterFinished": respellings.duration(value.get("ttlSecondsAfterFinished")),
    }
    return {path: found for path, found in made.items() if found is not None} or None


def _first_container(value: Any, depth: int) -> Mapping[str, Any] | None:
    if depth == 0:
        return None
    if isinstance(value, list):
        return next((found for one in value if (found := _first_container(one, depth - 1)) is not None), None)
    if not isinstance(value, Mapping):
        return None
    if "image" in value or "command" in value:
        return value
    inner = (value[key] for key in ("containers", "template", "spec", *value) if key in value)
    return next((found for one in inner if (found := _first_container(one, depth - 1)) is not None), None)
