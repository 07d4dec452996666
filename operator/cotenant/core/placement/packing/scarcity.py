"""Value of one slot for each shape: the fewer slots the whole cluster still has, the higher.

A slot of shape m is a place for one worker of that shape. Slots of which there are many may be used up by other shapes;
slots that exist on few nodes should not be. Let n_m(node) be the workers of shape m that a node takes by itself,
`K_m = Σ n_m`, R the free milli-GPU of the cluster, and

    ratio_m = R / (K_m · size_m)          1: it fits all that is free; 10: only a tenth of it

the value of one slot of shape m is

    w_m = share_m · size_m · min(MOST, TRUST + BOOST · max(0, ratio_m − PLENTY))

TRUST is the value of slots where nothing is scarce (a small part: what can be packed counts more, see
`fragmentation`). A shape bound to a scarce class, or that needs eight free GPUs at once, or much CPU, has more.
Worked example: 100 free GPUs, 10 of them T4; one job in ten is "T4 only": ratio 10, so an empty T4 is worth
0.1 · (0.1 + 8.5) = 0.86 GPU more than another, and others take it last.
"""

from __future__ import annotations

import numpy as np

from cotenant.core.gpus.inventory import IntArray
from cotenant.core.model.objects import WHOLE
from cotenant.core.placement.packing.workload_mix import WorkloadMix

TRUST = 10
"""Percent."""
BOOST = 100
"""Percent per unit of ratio."""
PLENTY = 150
"""Ratio in percent up to which nothing is scarce: even shapes that fit everywhere lose a little to rounding."""
MOST = 1500
"""Percent. With very little left, one shape must not drown the others."""


def slot_value(mix: WorkloadMix, slots: IntArray, free_milli: int) -> IntArray:
    """[M] value of one slot per shape, in millionths of a GPU, as weights are. `slots`: [M] slots in the cluster."""
    size = mix.size * mix.count
    ratio = (free_milli + WHOLE) * 100 // (slots * size + WHOLE)
    factor = np.minimum(TRUST + np.maximum(ratio - PLENTY, 0) * BOOST // 100, MOST)
    value: IntArray = mix.weight * size // WHOLE * factor // 100
    return value
