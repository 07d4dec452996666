"""The place of a gang: filter (`fitting`) → score (a `Scorer`) → choose nodes and GPUs (`gang`).

Open to `allocation` and everything above it. The seam for packing policies is `Placer` and `Scorer` in `scoring`: a
scorer reads the ledger's arrays, one `Shape` and the rows to score, and returns integers. It neither filters nor
chooses, so a policy cannot hand out what is not there.
"""

from cotenant.core.placement.bestfit import BestFit
from cotenant.core.placement.packing.fragmentation import Packing
from cotenant.core.placement.scoring import Placer, Scorer, Scores
from cotenant.core.placement.shapes import Demand, Shape

__all__ = ["BestFit", "Demand", "Packing", "Placer", "Scorer", "Scores", "Shape"]
