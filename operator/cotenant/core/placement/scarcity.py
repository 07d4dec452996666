"""How much room the whole cluster still has for each shape, and what one place for it is therefore worth.

A place that only few shapes can use may be spent freely; a place that a shape can find nowhere else must not be. With
`n_m(node)` the workers of shape m that a node takes by itself and `K_m = Σ n_m`, the worth of one place is

    w_m = share_m · size_m · min(MOST, (R / (K_m · size_m)) ^ 2)         R: free milli-GPU of the cluster

the gradient of a barrier on K_m: proportional fairness among shapes over what is left. A shape that fits everywhere
has R ≈ K·size and weight 1; one that is bound to a scarce class, needs eight free GPUs at once or much CPU has more.
Worked example: 100 free GPUs, 10 of them T4; "T4 only" has K = 10, so a T4 place is worth 100 times as much to it.
"""

from __future__ import annotations

import numpy as np

from cotenant.core.inventory import IntArray
from cotenant.core.model import WHOLE
from cotenant.core.placement.mix import PARTS, Mix

MOST = 30
"""Largest factor: with very little left, one shape must not drown the others."""
_FINE = 1000


def place_worth(mix: Mix, room: IntArray, free_milli: int) -> IntArray:
    """[M] worth of one place per shape, in millionths of a GPU. `room`: [M] places in the whole cluster."""
    size = mix.size * mix.count
    ratio = (free_milli + WHOLE) * _FINE // (room * size + WHOLE)
    factor = np.minimum(ratio * ratio // _FINE, MOST * _FINE)
    worth: IntArray = mix.weight * size // WHOLE * factor // _FINE
    assert PARTS == 1_000_000  # weights and prices share a unit, so that their sum needs no scale
    return worth
