"""The seam between choosing and scoring: placement filters and chooses, a scorer only ranks.

A cycle calls `Placer.prepare` once and keeps the scorer for the whole cycle. `Scorer.score` is called once for each
state that some node is in: nodes in the same state (`Ledger.state`) share one score. So `score` must be
a pure function of its arguments and of what `prepare` saw. A row's score may depend on the content of that row only,
not on its number or name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

import numpy as np

from cotenant.core.gpus.inventory import BoolArray, IntArray
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.placement.shapes import Demand, Shape

LOWEST: Final = np.iinfo(np.int64).min
"""Score of a row that does not take the shape."""


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Integers, higher is better. Entries for what does not fit are ignored."""

    node: IntArray
    """[R] for placing the shape on each row."""
    gpu: IntArray
    """[R, G] for each GPU that may serve; the best `count` of the chosen row are taken, ties to the lower column."""


class ScoreScope(Enum):
    """What the scores of a shape depend on besides the state of the node. The less it is, the more requests share
    them."""

    NODE = "Node"
    """Nothing, as long as enough GPUs fit: the row's score is the same whichever they are, and so are its GPUs'."""
    GPU = "Gpu"
    """Nothing for each GPU. The row's score is the best of its GPUs that fit."""
    FIT = "Fit"
    """The set of GPUs that fit."""


class Scorer(Protocol):
    def scope(self, shape: Shape) -> ScoreScope:
        """What `score` reads of `fit`. If it is not the set (NODE, GPU), the shape is scored once for all tenants and
        class options."""
        ...

    def score(self, ledger: Ledger, shape: Shape, rows: IntArray, fit: BoolArray) -> Scores:
        """Score `rows` ([R] node rows). `fit[r, g]`: GPU g of row r may serve one of the shape's GPUs. Rows where too
        few fit may be among them; their scores are ignored. Unless the scope is FIT, a shape that needs less of a node
        has no lower score there (`shapes.rougher`)."""
        ...


class Placer(Protocol):
    def prepare(self, ledger: Ledger, demands: Sequence[Demand]) -> Scorer:
        """Once per cycle. `demands`: shapes queued, running and run lately, with weights (no oracle)."""
        ...
