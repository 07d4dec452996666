"""Best fit: the tightest GPU on the tightest node."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cotenant.core.gpus.ledger import Ledger, NodeAllocation
from cotenant.core.placement.bestfit import BestFit
from cotenant.core.placement.fitting import Tenancy
from cotenant.core.placement.scoring import LOWEST, Scores
from cotenant.core.placement.shapes import Shape
from tests.core.placement.kept_fits import fit
from tests.support.clusters import make_node

SHARE = Shape(whole=False, memory_milli=200)
HELD = NodeAllocation(row=0, columns=(0,), memory_mib=(1,), compute_milli=(800,), cpu_milli=0, host_mib=0, tenant=1)
LOW = replace(HELD, row=1, columns=(0, 1), memory_mib=(1, 1), compute_milli=(600, 600))


def scores(shape: Shape, *held: NodeAllocation, cpu_milli: tuple[int, int] = (64_000, 64_000)) -> Scores:
    ledger = Ledger.of([make_node(f"n{row}", gpus=2, cpu_milli=cpu) for row, cpu in enumerate(cpu_milli)])
    for allocation in held:
        ledger.allocate(allocation)
    rows = np.array([0, 1])
    return BestFit().score(ledger, shape, rows, fit(ledger, shape, rows, Tenancy(1)))


@pytest.mark.parametrize(
    ("shape", "found", "better"),
    [
        pytest.param(Shape(), scores(Shape(), HELD), 0, id="the node with less compute left"),
        pytest.param(Shape(), scores(Shape(), cpu_milli=(64_000, 63_990)), 1, id="of as much the one with less CPU"),
        pytest.param(
            Shape(), scores(Shape(), HELD, cpu_milli=(10**12, 0)), 0, id="however much CPU the other one lacks"
        ),
        pytest.param(
            SHARE,
            scores(SHARE, replace(HELD, compute_milli=(700,)), LOW),
            0,
            id="for a share the node whose tightest GPU is tighter although more is left of it in all",
        ),
        pytest.param(
            SHARE,
            scores(SHARE, replace(HELD, compute_milli=(900,)), replace(HELD, row=1, compute_milli=(700,))),
            1,
            id="a GPU that the share does not fit makes no node tight",
        ),
    ],
)
def test_the_better_node_is(shape: Shape, found: Scores, better: int) -> None:
    assert int(found.node.argmax()) == better


def test_a_milli_of_compute_outweighs_cpu_and_the_tightest_gpu_outweighs_both() -> None:
    assert scores(Shape(), HELD).node.tolist() == [-1_200_006_400, -2_000_006_400]
    assert scores(SHARE, HELD).node.tolist() == [-1_200_006_400 - 20_000_000_000, -2_000_006_400 - 100_000_000_000]
    assert scores(SHARE, HELD).gpu.tolist() == [
        [-1_200_006_400 - 20_000_000_000, -1_200_006_400 - 100_000_000_000],
        [-2_000_006_400 - 100_000_000_000, -2_000_006_400 - 100_000_000_000],
    ]


def test_a_nodes_tightness_is_that_of_its_tightest_fitting_gpu() -> None:
    """The first GPU has 100 left, which is too little; the other is empty."""
    assert scores(SHARE, replace(HELD, compute_milli=(900,))).node.tolist()[0] == -1_100_006_400 - 100_000_000_000


def test_idle_cpu_counts_up_to_a_bound() -> None:
    found = scores(Shape(), cpu_milli=(10**9, 9_999_980))
    assert found.node.tolist() == [-2_000 * 1_000_000 - 999_999, -2_000 * 1_000_000 - 999_998]


def test_a_node_is_scored_by_its_own_gpus_however_many_nodes_and_gpus_there_are() -> None:
    """Two nodes of three GPUs; on the second no GPU fits. One without GPUs takes no share."""
    ledger = Ledger.of([make_node("n0", gpus=3), make_node("n1", gpus=3)])
    ledger.allocate(HELD)
    rows = np.array([0, 1])
    fits = np.array([[True, True, True], [False, False, False]])
    tight = [-2_200_006_400 - 20_000_000_000, LOWEST]
    assert BestFit().score(ledger, SHARE, rows, fits).node.tolist() == tight
    assert BestFit().score(ledger, Shape(), rows, fits).node.tolist() == [-2_200_006_400, -3_000_006_400]

    empty = Ledger.of([make_node("n0", gpus=0)])
    none = np.zeros((1, 0), dtype=np.bool_)
    assert BestFit().score(empty, SHARE, np.array([0]), none).node.tolist() == [LOWEST]
