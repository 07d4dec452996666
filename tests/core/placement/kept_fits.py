"""A cache of fits over equal nodes, changes of what they hold, and the cache's answers as values."""

from __future__ import annotations

from dataclasses import replace

from cotenant.core.gpus.inventory import BoolArray, IntArray
from cotenant.core.gpus.ledger import Ledger, NodeAllocation
from cotenant.core.placement.bestfit import BestFit
from cotenant.core.placement.fit_cache import FitCache, ShapeFit
from cotenant.core.placement.fitting import Tenancy, may_share, room
from cotenant.core.placement.scoring import Scores
from cotenant.core.placement.shapes import Shape
from tests.support.clusters import make_node

HALF = Shape(whole=False, memory_milli=500)
US, THEM = Tenancy(1), Tenancy(2)
SHARE = NodeAllocation(
    row=1, columns=(0,), memory_mib=(40_960,), compute_milli=(500,), cpu_milli=0, host_mib=0, tenant=1
)
GPU = replace(SHARE, memory_mib=(81_920,), compute_milli=(1_000,))


def fit(ledger: Ledger, shape: Shape, rows: IntArray, tenancy: Tenancy) -> BoolArray:
    """[R, G] this GPU may serve one of the shape's GPUs now, judged without a cache."""
    roomy = room(ledger, shape, rows)
    return roomy if shape.whole else roomy & may_share(ledger, rows, tenancy)


class CountingScorer(BestFit):
    """Best fit that notes which rows it was asked to score."""

    def __init__(self) -> None:
        self.scored: list[list[int]] = []

    def score(self, ledger: Ledger, shape: Shape, rows: IntArray, fit: BoolArray) -> Scores:
        self.scored.append(rows.tolist())
        return super().score(ledger, shape, rows, fit)


def cache(nodes: int = 4) -> tuple[FitCache, CountingScorer]:
    scorer = CountingScorer()
    return FitCache(Ledger.of([make_node(f"n{number}") for number in range(nodes)]), scorer), scorer


def answers(fit: ShapeFit) -> tuple[object, ...]:
    rows = range(len(fit.capacity))
    return (
        fit.capacity.tolist(),
        fit.node_scores.tolist(),
        [fit.gpu_scores(row).tolist() for row in rows],
        fit.all_fits().tolist(),
    )
