"""The scorer against its formula, worked out the slow way, and the rules that hold for every scorer."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.core.gpus.inventory import BoolArray, Inventory
from cotenant.core.gpus.ledger import Ledger, NodeAllocation
from cotenant.core.model.objects import WHOLE, Node
from cotenant.core.placement import Packing, Shape
from cotenant.core.placement.fit_cache import FitCache
from cotenant.core.placement.fitting import Tenancy
from cotenant.core.placement.gang import place_gang
from cotenant.core.placement.gang_request import PlacementRequest, capacity_per_node
from cotenant.core.placement.packing.dual_prices import UNIT, dual_prices
from cotenant.core.placement.packing.fragmentation import CPU_PRICES
from cotenant.core.placement.packing.node_values import TIE_BITS
from cotenant.core.placement.packing.scarcity import slot_value
from cotenant.core.placement.packing.workload_mix import WorkloadMix
from cotenant.core.placement.scoring import ScoreScope
from cotenant.core.placement.shapes import Demand, rougher
from tests.core.placement.kept_fits import fit
from tests.support.clusters import make_node

ME = Tenancy(1)
NODES = [
    make_node("big", gpus=4, gpu_class="A100", memory_mib=1000, cpu_milli=48_000, host_mib=100_000),
    make_node("poor", gpus=2, gpu_class="P100", memory_mib=1000, cpu_milli=8_000, host_mib=50_000),
    make_node("rich", gpus=2, gpu_class="T4", memory_mib=1000, cpu_milli=96_000, host_mib=400_000),
]


def share(milli: int, **more: Any) -> Shape:
    return Shape(whole=False, memory_milli=milli, **more)


NO_GPU = Shape(count=0, cpu_milli=30_000)
SHAPES = [
    share(810, cpu_milli=3000),
    share(470, cpu_milli=12_000, host_mib=9000),
    share(320, cpu_milli=4000),
    share(160, cpu_milli=2000, classes=("T4",)),
    Shape(cpu_milli=11_000, host_mib=30_000),
    Shape(count=2, cpu_milli=20_000),
    Shape(count=4, cpu_milli=40_000),
    NO_GPU,
]
DEMANDS = [(shape, float(100 + 30 * index)) for index, shape in enumerate(SHAPES)]
UNEVEN = [
    share(300, compute_milli=600, cpu_milli=2_000),
    share(500, compute_milli=200, cpu_milli=1_000),
    share(400, compute_milli=100, count=2, host_mib=20_000),
    Shape(cpu_milli=11_000, host_mib=30_000),
]
"""Shares of more memory than compute, and of less."""
STEPS = st.lists(st.tuples(st.integers(0, len(SHAPES) - 1), st.integers(0, 2), st.integers(0, 3)), max_size=12)


def played(nodes: Sequence[Node], steps: list[tuple[int, int, int]], shapes: Sequence[Shape] = SHAPES) -> Ledger:
    """A ledger after some placements that fit, anywhere."""
    ledger = Ledger.of(nodes)
    for number, row, turn in steps:
        put(ledger, shapes[number % len(shapes)], row, turn)
    return ledger


def memory_of(shape: Shape) -> int:
    return WHOLE if shape.whole else shape.memory_milli


def compute_of(shape: Shape) -> int:
    return WHOLE if shape.whole else shape.compute_milli or shape.memory_milli


def put(ledger: Ledger, shape: Shape, row: int, turn: int) -> bool:
    fits = fit(ledger, shape, np.array([row]), ME)[0]
    columns = np.roll(np.flatnonzero(fits), turn)[: shape.count].tolist()
    if len(columns) < shape.count or ledger.free_cpu[row] < shape.cpu_milli or ledger.free_host[row] < shape.host_mib:
        return False
    taken(ledger, shape, row, columns)
    return True


def taken(ledger: Ledger, shape: Shape, row: int, columns: list[int]) -> None:
    memory, compute = (memory_of(shape),) * len(columns), (compute_of(shape),) * len(columns)
    ledger.allocate(NodeAllocation(row, tuple(columns), memory, compute, shape.cpu_milli, shape.host_mib, 1))


class Slow:
    """The formula of `fragmentation`, node by node and set by set."""

    def __init__(self, ledger: Ledger, demands: Sequence[Demand]) -> None:
        self.mix = WorkloadMix.of(demands, ledger.inventory)
        inventory = ledger.inventory
        per_gpu = int(inventory.cpu_milli.sum()) // int((inventory.kind >= 0).sum())
        self.q = [percent * UNIT // (100 * per_gpu) for percent in CPU_PRICES]
        weights = {WHOLE: 1}
        for part, weight in zip(self.mix.parts, self.mix.part_weight, strict=True):
            size = max(memory_of(part), compute_of(part))
            weights[size] = weights.get(size, 0) + weight
        rough = {
            size: weight >> max(0, weight.bit_length() - 3) << max(0, weight.bit_length() - 3)
            for size, weight in weights.items()
        }
        ordered = tuple(sorted(rough.items(), reverse=True))
        self.price = dict(zip((size for size, _ in ordered), dual_prices(ordered), strict=True))
        rows = range(len(inventory.nodes))
        places = [sum(self.workers(ledger, row, shape) for row in rows) for shape in self.mix.shapes]
        free = int(np.minimum(ledger.free_memory, ledger.free_compute).sum())
        self.worths: list[int] = slot_value(self.mix, np.array(places), free).tolist()

    def workers(self, ledger: Ledger, row: int, shape: Shape) -> int:
        allowed = not shape.classes or ledger.inventory.nodes[row].gpus[0].gpu_class in shape.classes
        frees = zip(ledger.free_memory[row].tolist(), ledger.free_compute[row].tolist(), strict=True)
        fits = [min(memory // memory_of(shape), compute // compute_of(shape)) for memory, compute in frees]
        limits = [sum(fits) // shape.count if allowed else 0, int(ledger.free_cpu[row]) // max(1, shape.cpu_milli)]
        return min(*limits, int(ledger.free_host[row]) // max(1, shape.host_mib))

    def packed(self, ledger: Ledger, row: int, q: int) -> list[int]:
        """For each GPU, the amount that can be packed into the scarcer free dimension."""
        gpu_class = ledger.inventory.nodes[row].gpus[0].gpu_class
        parts = [part for part in self.mix.parts if not part.classes or gpu_class in part.classes]

        @cache
        def best(room: int, size_of: Callable[[Shape], int]) -> int:
            values = [
                max(0, self.price[max(memory_of(part), compute_of(part))] - q * part.cpu_milli)
                + best(room - size_of(part), size_of)
                for part in parts
                if size_of(part) <= room
            ]
            return max(values, default=0)

        frees = zip(ledger.free_memory[row].tolist(), ledger.free_compute[row].tolist(), strict=True)
        return [min(best(memory, memory_of), best(compute, compute_of)) for memory, compute in frees]

    def worth(self, ledger: Ledger, row: int) -> int:
        bound = min(sum(self.packed(ledger, row, q)) + q * int(ledger.free_cpu[row]) for q in self.q)
        weighted = zip(self.worths, self.mix.shapes, strict=True)
        return bound + sum(worth * self.workers(ledger, row, shape) for worth, shape in weighted)

    def gains(self, ledger: Ledger, row: int, shape: Shape, fits: BoolArray) -> list[int]:
        """What the node gains by each way to take the shape. GPUs that it takes together are those that lose least
        where CPU has no price."""
        columns = np.flatnonzero(fits).tolist()
        ways = [[column] for column in columns] if shape.count == 1 else [columns[: shape.count]]
        if shape.count > 1:
            before = self.packed(ledger, row, 0)
            loss = {}
            for column in columns:
                alone = ledger.copy()
                taken(alone, replace(shape, count=1, cpu_milli=0, host_mib=0), row, [column])
                loss[column] = before[column] - self.packed(alone, row, 0)[column]
            ways = [sorted(columns, key=lambda column: (loss[column], column))[: shape.count]]
        found = []
        for way in ways:
            after = ledger.copy()
            taken(after, shape, row, way)
            found.append(self.worth(after, row) - self.worth(ledger, row))
        return found


@pytest.mark.parametrize(
    ("shapes", "number"), [(shapes, number) for shapes in (SHAPES, UNEVEN) for number in range(len(shapes))]
)
@settings(deadline=None, max_examples=12)
@given(steps=STEPS)
def test_a_score_is_the_value_after_minus_the_value_before(
    shapes: list[Shape], number: int, steps: list[tuple[int, int, int]]
) -> None:
    demands = [(shape, float(100 + 30 * index)) for index, shape in enumerate(shapes)]
    ledger, shape = played(NODES, steps, shapes), shapes[number]
    slow, scorer = Slow(ledger, demands), Packing().prepare(ledger, demands)
    rows = np.arange(3)
    fits = fit(ledger, shape, rows, ME)
    scores = scorer.score(ledger, shape, rows, fits)
    for row in range(3):
        able = fits[row].sum() >= shape.count and ledger.free_cpu[row] >= shape.cpu_milli
        if able and ledger.free_host[row] >= shape.host_mib:
            assert -(-int(scores.node[row]) >> TIE_BITS) == max(slow.gains(ledger, row, shape, fits[row]))


@settings(deadline=None, max_examples=25)
@given(steps=STEPS, number=st.integers(0, len(SHAPES) - 1))
def test_rows_score_the_same_alone_or_together(steps: list[tuple[int, int, int]], number: int) -> None:
    ledger, shape = played([make_node(f"n{i}", gpus=4, memory_mib=1000) for i in range(60)], steps), SHAPES[number]
    scorer = Packing().prepare(ledger, DEMANDS)
    rows = np.arange(60)
    fits = fit(ledger, shape, rows, ME)
    together = scorer.score(ledger, shape, rows, fits)
    for row in range(4):
        alone = scorer.score(ledger, shape, rows[row : row + 1], fits[row : row + 1])
        few = scorer.score(ledger, shape, rows[row : row + 2], fits[row : row + 2])
        assert alone.node.tolist() == [together.node[row]] == [few.node[0]]
        assert alone.gpu.tolist() == [together.gpu[row].tolist()] == [few.gpu[0].tolist()]


@pytest.mark.parametrize(
    "shapes", [pytest.param(SHAPES, id="of even shares"), pytest.param(UNEVEN, id="of uneven shares")]
)
@given(steps=STEPS)
def test_no_score_exceeds_that_of_the_rougher_shape(shapes: list[Shape], steps: list[tuple[int, int, int]]) -> None:
    """A worker with shares of several GPUs has no bound: which of them it gets depends on the set that fits."""
    ledger = played(NODES, steps, shapes)
    scorer = Packing().prepare(Ledger.of(NODES), [(shape, 1.0) for shape in shapes])
    fit_cache = FitCache(ledger, scorer)
    for shape in shapes:
        if scorer.scope(shape) is ScoreScope.FIT:
            continue
        request = PlacementRequest(shape=shape, tenancy=ME, rows=slice(None))
        rows = np.flatnonzero(capacity_per_node(fit_cache, request))
        fits = fit(ledger, shape, rows, ME)
        exact, bound = (fit_cache.scores(one, rows, fits)[0] for one in (shape, rougher(shape)))
        assert (exact <= bound).all()


def test_no_name_breaks_a_tie() -> None:
    """The same cluster under other names: the same scores for the same machines."""
    names, renamed = ["a", "b", "c"], ["z", "m", "a"]
    one, other = (
        Ledger.of(make_node(name, gpus=gpus, memory_mib=1000) for name, gpus in zip(order, (2, 4, 8), strict=True))
        for order in (names, renamed)
    )

    def judged(ledger: Ledger) -> list[int]:
        rows = np.arange(3)
        scores = Packing().prepare(ledger, DEMANDS).score(ledger, SHAPES[0], rows, fit(ledger, SHAPES[0], rows, ME))
        return sorted(scores.node.tolist())

    assert judged(one) == judged(other)


@pytest.mark.parametrize(
    "large", [{"gpus": 8, "cpu_milli": 900_000}, {"gpus": 2, "cpu_milli": 901_000}], ids=["fewer GPUs", "less CPU"]
)
def test_among_equal_gains_the_node_with_less_left_wins(large: dict[str, Any]) -> None:
    """An 810 on an empty GPU costs that GPU wherever CPU is plenty; the smaller node is used up first."""
    nodes = [make_node("large", **large), make_node("small", gpus=2, cpu_milli=900_000)]
    ledger = Ledger.of(nodes)
    rows = np.arange(2)
    scores = (
        Packing().prepare(ledger, [(SHAPES[0], 1e6)]).score(ledger, SHAPES[0], rows, fit(ledger, SHAPES[0], rows, ME))
    )
    assert ledger.inventory.nodes[int(scores.node.argmax())].name == "small"


@pytest.mark.parametrize(
    ("residuals", "shape", "want"),
    [
        pytest.param([1000, 530], 470, 530, id="a half goes beside a half"),
        pytest.param([1000, 530, 350], 320, 350, id="a third goes where a third is left"),
        pytest.param([530, 1000], 320, 1000, id="not into the hole that waits for a half"),
    ],
)
def test_shares_are_paired_with_shares_that_fill_the_gpu(residuals: list[int], shape: int, want: int) -> None:
    mix = [(share(810), 300.0), (share(470), 400.0), (share(320), 300.0), (share(650), 100.0)]
    ledger = Ledger.of([make_node("n", gpus=len(residuals), memory_mib=1000)])
    taken = tuple(1000 - left for left in residuals)
    ledger.allocate(NodeAllocation(0, tuple(range(len(residuals))), taken, taken, 0, 0, 1))
    ledger.holders[:] = 1
    ledger.tenant_sum[:] = 1
    ledger.tenant_square[:] = 1
    rows = np.arange(1)
    scores = Packing().prepare(ledger, mix).score(ledger, share(shape), rows, fit(ledger, share(shape), rows, ME))
    assert residuals[int(scores.gpu[0].argmax())] == want


@settings(deadline=None, max_examples=25)
@given(numbers=st.lists(st.integers(0, len(SHAPES) - 1), max_size=60))
def test_filling_a_cluster_never_overcommits_and_is_the_same_every_time(numbers: list[int]) -> None:
    def fill_up() -> tuple[list[int], Ledger]:
        ledger = Ledger(Inventory.of(NODES))
        room = FitCache(ledger, Packing().prepare(ledger, DEMANDS))
        went = []
        for number in numbers:
            wanted = PlacementRequest(shape=SHAPES[number], tenancy=ME, rows=slice(None))
            found = place_gang(room, wanted, 1)
            if found is None:
                assert not capacity_per_node(room, wanted).any()
                continue
            ((row, (columns,)),) = found
            milli = tuple(WHOLE if SHAPES[number].whole else SHAPES[number].memory_milli for _ in columns)
            ledger.allocate(
                NodeAllocation(row, columns, milli, milli, SHAPES[number].cpu_milli, SHAPES[number].host_mib, 1)
            )
            went.append(row)
        return went, ledger

    (first, ledger), (second, _) = fill_up(), fill_up()
    assert first == second
    assert ledger.sound()


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param([], id="no nodes"),
        pytest.param([make_node("a", gpus=0)], id="no GPUs"),
        pytest.param([make_node("a", ready=False)], id="no node ready"),
        pytest.param([make_node("a", cpu_milli=0, host_mib=0)], id="no CPU"),
    ],
)
def test_without_a_fit_nothing_is_placed(nodes: list[Node]) -> None:
    ledger = Ledger.of(nodes)
    room = FitCache(ledger, Packing().prepare(ledger, DEMANDS))
    for shape in SHAPES:
        if shape.count:
            assert place_gang(room, PlacementRequest(shape=shape, tenancy=ME, rows=slice(None)), 1) is None


def test_nodes_without_gpus_and_with_mixed_kinds_are_scored_too() -> None:
    mixed = make_node("mixed", gpus=2, gpu_class="A100")
    mixed = replace(mixed, gpus=(mixed.gpus[0], replace(mixed.gpus[1], gpu_class="T4", memory_mib=16_384)))
    ledger = Ledger.of([mixed, make_node("none", gpus=0), make_node("large", gpus=4, gpu_class="T4")])
    room = FitCache(ledger, Packing().prepare(ledger, DEMANDS))
    not_large = np.array([ledger.inventory.row_of[name] for name in ("mixed", "none")])
    absolute = share(0, memory_mib=20_000, compute_milli=100)  # more than the T4 of `mixed` has
    row = ledger.inventory.row_of["mixed"]
    asked = {
        shape: place_gang(room, PlacementRequest(shape=shape, tenancy=ME, rows=not_large), 1)
        for shape in (absolute, Shape(count=2), NO_GPU)
    }
    none = ledger.inventory.row_of["none"]
    assert asked == {absolute: ((row, ((0,),)),), Shape(count=2): ((row, ((0, 1),)),), NO_GPU: ((none, ((),)),)}
