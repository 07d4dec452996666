"""What makers say about GPU classes: memory, its bandwidth, and dense 16-bit matrix arithmetic. Data, with sources.

No program reaches these peaks, so they are only used as ratios between two classes. If a class has several builds, the
figures are those of the build in the source; the agent's class names do not distinguish them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class GpuFigures:
    memory_gb: int
    bandwidth: int
    """GB/s."""
    tflops: int
    """BF16 or FP16 on tensor cores, without sparsity."""
    source: str


FIGURES: Final[Mapping[str, GpuFigures]] = {
    "T4": GpuFigures(16, 300, 65, "NVIDIA T4 datasheet (2019), FP16"),
    "V100": GpuFigures(32, 900, 125, "NVIDIA V100 datasheet (2020), SXM2, FP16"),
    "A10": GpuFigures(24, 600, 125, "NVIDIA A10 datasheet (2021)"),
    "A30": GpuFigures(24, 933, 165, "NVIDIA A30 datasheet (2022)"),
    "A40": GpuFigures(48, 696, 150, "NVIDIA A40 datasheet (2022)"),
    "A100": GpuFigures(80, 2039, 312, "NVIDIA A100 datasheet (2021), 80 GB SXM; 40 GB: 1,555 GB/s"),
    "L4": GpuFigures(24, 300, 121, "NVIDIA L4 datasheet (2023), half of what it gives with sparsity"),
    "L40S": GpuFigures(48, 864, 362, "NVIDIA L40S datasheet (2023)"),
    "H100": GpuFigures(80, 3350, 989, "NVIDIA H100 datasheet (2023), SXM, half of what it gives with sparsity"),
    "H200": GpuFigures(141, 4800, 989, "NVIDIA H200 datasheet (2024), SXM, half of what it gives with sparsity"),
    "B200": GpuFigures(180, 8000, 2250, "NVIDIA DGX B200 datasheet (2024), an eighth of the system, without sparsity"),
}
_PART: Final = re.compile(r"\b\d+g\.\d+gb")
"""Profile of a MIG instance, which is a part of its GPU."""
_BUILD: Final = re.compile(r"[-_. ](SXM\d?|NVL|HBM\d?e?|\d+ ?G[Bi]?)$", re.IGNORECASE)


def figures_of(gpu_class: str) -> GpuFigures | None:
    """`A100-80GB` → those of the A100. None for parts of GPUs, slower builds, and names in no table."""
    if _PART.search(gpu_class):
        return None
    name = gpu_class
    for _ in range(2):
        name = _BUILD.sub("", name)
    return FIGURES.get(name.upper())
