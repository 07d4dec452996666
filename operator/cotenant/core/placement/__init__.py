"""Where a gang goes: filter (`fitting`) → score (a `Scorer`) → choose nodes and GPUs (`gang`).

The seam for packing policies is `Placer` and `Scorer` in `scoring`: a scorer sees the ledger's arrays, one `Shape` and
the rows to judge, and answers with integers. It neither filters nor chooses, so a policy cannot hand out
what is not there.
"""

from cotenant.core.placement.bestfit import BestFit
from cotenant.core.placement.packing.fragmentation import Packing
from cotenant.core.placement.scoring import Placer, Scorer, Scores
from cotenant.core.placement.shapes import Demand, Shape

__all__ = ["BestFit", "Demand", "Packing", "Placer", "Scorer", "Scores", "Shape"]
