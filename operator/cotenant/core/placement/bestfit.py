"""Best fit: the tightest GPU on the tightest node. The plain policy and the baseline of the better ones.

Formula: a share goes where the GPU that takes it has the least room (a GPU in use before a fresh one); then, and for
whole GPUs at once, to the node with the least free compute, then with the least free CPU.
Example: free milli [200, 1000], a share of 200 goes to the first GPU and fills it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cotenant.core.gpus.inventory import BoolArray, IntArray
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.placement.scoring import LOWEST, Scorer, Scores, ScoreScope
from cotenant.core.placement.shapes import Demand, Shape

_STEP = 1_000_000


class BestFit:
    """Placer and Scorer in one: it learns nothing."""

    def prepare(self, ledger: Ledger, demands: Sequence[Demand]) -> Scorer:
        return self

    def scope(self, shape: Shape) -> ScoreScope:
        return ScoreScope.NODE if shape.whole else ScoreScope.GPU

    def score(self, ledger: Ledger, shape: Shape, rows: IntArray, fit: BoolArray) -> Scores:
        free = ledger.free_compute[rows]
        node = -free.sum(axis=1) * _STEP - np.minimum(ledger.free_cpu[rows] // 10, _STEP - 1)
        if shape.whole:
            return Scores(node=node, gpu=-free)
        gpu = node[:, None] - free * _STEP * 100
        return Scores(node=np.where(fit, gpu, LOWEST).max(axis=1, initial=LOWEST), gpu=gpu)
