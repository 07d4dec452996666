"""Whether the GPUs of a class are alike: a class is a product family, such as A100, which exists with 40 and 80 GB."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from cotenant.cli.administrators.health.diagnoses import Diagnosis, SeenCluster, Severity

ALIKE: Final = 1.25
"""Drivers reserve a little of the memory, so GPUs of one size differ by less than this factor."""


def gpu_classes(cluster: SeenCluster) -> Iterator[Diagnosis]:
    """Finds classes whose GPUs have unlike memory: whole GPUs are handed out by class alone."""
    nodes_of: dict[str, dict[int, str]] = defaultdict(dict)
    for one in cluster.items("gpuNodes"):
        for gpu in (one.get("status") or {}).get("gpus") or ():
            if memory := gpu.get("memoryMiB", 0):
                nodes_of[gpu["class"]].setdefault(memory, one["metadata"]["name"])
    for name, found in sorted(nodes_of.items()):
        least, most = min(found), max(found)
        if most > ALIKE * least:
            yield Diagnosis(
                Severity.NOTE, f"GPU class {name}",
                f"has GPUs of {least / 1024:.0f} GiB (node {found[least]}) and of {most / 1024:.0f} GiB (node"
                f" {found[most]}): jobs and quotas cannot tell them apart, and a job may get both",
                f"kubectl label node {found[least]} cotenant.dev/gpu-class={name}-{least / 1024:.0f}G, and so on; then"
                " name both classes in quotas and jobs",
            )  # fmt: skip
