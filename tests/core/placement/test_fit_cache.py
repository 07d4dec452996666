"""Fits and scores by state: equal to those of a new cache, and each state is scored once per shape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.core.gpus.inventory import BoolArray, IntArray
from cotenant.core.gpus.ledger import Ledger, NodeAllocation
from cotenant.core.model.objects import Node, Sharing
from cotenant.core.placement import Packing
from cotenant.core.placement.bestfit import BestFit
from cotenant.core.placement.fit_cache import FitCache
from cotenant.core.placement.fitting import Tenancy, capacity
from cotenant.core.placement.scoring import LOWEST, Placer, Scorer
from cotenant.core.placement.shapes import Shape
from tests.core.placement.kept_fits import GPU, HALF, SHARE, THEM, US, answers, cache, fit
from tests.support.clusters import make_node


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        pytest.param((HALF, US, True), (HALF, THEM, True), False, id="shares of two tenants are two questions"),
        pytest.param((Shape(), US, True), (Shape(), THEM, True), True, id="a whole GPU looks the same to all tenants"),
        pytest.param((HALF, US, True), (HALF, US, False), False, id="ranks together and apart are two questions"),
        pytest.param((HALF, US, True), (replace(HALF, cpu_milli=1), US, True), False, id="two shapes"),
    ],
)
def test_cached_fits_are_shared_between(
    one: tuple[Shape, Tenancy, bool], other: tuple[Shape, Tenancy, bool], shared: bool
) -> None:
    fit_cache, _ = cache()
    first, second = (fit_cache.shape_fit(shape, who, distinct=distinct) for shape, who, distinct in (one, other))

    assert (first is second) is shared


CLASSES = (("A100", 40_960), ("H100", 81_920), ("T4", 15_360))
QUESTIONS = st.tuples(
    st.sampled_from(
        [
            Shape(),
            Shape(count=2, cpu_milli=2_000),
            Shape(classes=("A100", "T4")),
            Shape(only_class="H100", cpu_milli=7_000),
            Shape(count=0, cpu_milli=1_000),
            HALF,
            Shape(whole=False, memory_mib=9_000, host_mib=9_000),
            Shape(whole=False, memory_milli=300, cpu_milli=3_000, classes=("H100", "T4"), only_class="T4"),
            Shape(whole=False, compute_milli=400, only_class="A100"),
            HALF.times(2),
        ]
    ),
    st.builds(Tenancy, st.integers(0, 2), st.sampled_from(Sharing)),
    st.booleans(),
)


@st.composite
def used_nodes(draw: st.DrawFn) -> list[Node]:
    """Nodes of their own kind each, or of several; some are not ready, some shared by queues."""
    mixed = draw(st.booleans())
    nodes = []
    for number in range(draw(st.integers(1, 5))):
        gpu_class, memory = draw(st.sampled_from(CLASSES))
        node = make_node(
            f"n{number}",
            gpus=draw(st.integers(0, 3)),
            gpu_class=gpu_class,
            memory_mib=memory,
            cpu_milli=draw(st.sampled_from((0, 2_500, 9_000, 64_000))),
            host_mib=draw(st.sampled_from((8_000, 40_000))),
            ready=draw(st.integers(0, 9)) > 0,
            shared_by_queues=draw(st.booleans()),
        )
        if mixed and node.gpus:
            node = replace(node, gpus=(replace(node.gpus[0], gpu_class="T4", memory_mib=15_360), *node.gpus[1:]))
        nodes.append(node)
    return nodes


def lay(draw: Callable[..., Any], ledger: Ledger, held: list[NodeAllocation]) -> None:
    """Release a held allocation, or allocate a free place."""
    if held and draw(st.integers(0, 2)) == 0:
        ledger.release(held.pop(draw(st.integers(0, len(held) - 1))))
        return
    row = draw(st.integers(0, len(ledger.free_cpu) - 1))
    columns = np.flatnonzero(ledger.free_compute[row] > 0).tolist()
    if not columns:
        return
    column = draw(st.sampled_from(columns))
    milli = min(draw(st.sampled_from((300, 500, 1_000))), int(ledger.free_compute[row, column]))
    memory = int(ledger.free_memory[row, column]) * milli // 1_000
    sharing = draw(st.sampled_from(Sharing))
    cpu = draw(st.sampled_from((500, 80_000)))  # a place that is nominated may be counted twice
    taken = NodeAllocation(row, (column,), (memory,), (milli,), cpu, 100, draw(st.integers(0, 2)), sharing)
    ledger.allocate(taken)
    held.append(taken)


def plainly(
    ledger: Ledger, scorer: Scorer, question: tuple[Shape, Tenancy, bool]
) -> tuple[tuple[object, ...], BoolArray, list[list[int]]]:
    """The reference answer: capacity, scores, fits, and the order of GPUs if they are to be chosen. Every row with GPUs
    of the shape's classes is judged without a cache.
    """
    shape, tenancy, distinct = question
    rows = rows_with(ledger, shape)
    fits = fit(ledger, shape, rows, tenancy)
    takes = capacity(ledger, shape, rows, fits, distinct=distinct)
    scores = scorer.score(ledger, shape, rows, fits)
    chosen = fits & (takes[:, None] > 0) & (shape.count > 0)
    plain = takes.tolist(), np.where(takes > 0, scores.node, LOWEST).tolist(), fits.tolist()
    return plain, chosen, order_of(chosen, scores.gpu)


def rows_with(ledger: Ledger, shape: Shape) -> IntArray:
    """Rows with GPUs of the shape's classes."""
    if not shape.count:
        return np.arange(len(ledger.free_cpu))
    serves = [
        (not shape.classes or kind.gpu_class in shape.classes) and shape.only_class in ("", kind.gpu_class)
        for kind in ledger.inventory.kinds
    ]
    named = bool(shape.classes or shape.only_class)
    return np.array(
        [
            row
            for row, kinds in enumerate(ledger.inventory.kind)
            if not named or any(serves[k] for k in kinds if k >= 0)
        ],
        dtype=np.int64,
    )


def order_of(fits: BoolArray, scores: IntArray) -> list[list[int]]:
    """Per row, the columns that fit in order of their scores."""
    return [
        sorted(np.flatnonzero(good).tolist(), key=lambda column: (-score[column], column))
        for good, score in zip(fits, scores, strict=True)
    ]


@pytest.mark.parametrize("placer", [BestFit(), Packing()])
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_cached_and_shared_fits_equal_those_judged_for_one_question_alone(placer: Placer, data: st.DataObject) -> None:
    ledger = Ledger.of(data.draw(used_nodes()))
    held: list[NodeAllocation] = []
    for _ in range(data.draw(st.integers(0, 4))):
        lay(data.draw, ledger, held)
    scorer = placer.prepare(ledger, [(Shape(cpu_milli=4_000), 3.0), (replace(HALF, classes=("T4",)), 5.0)])
    fit_cache = FitCache(ledger, scorer)
    questions = data.draw(st.lists(QUESTIONS, min_size=1, max_size=4))
    for _ in range(data.draw(st.integers(1, 5))):
        for question in data.draw(st.lists(st.sampled_from(questions), max_size=3)):
            shape, tenancy, distinct = question
            found = fit_cache.shape_fit(shape, tenancy, distinct=distinct)
            rows = rows_with(ledger, shape)
            scored = np.array([found.gpu_scores(row) for row in rows.tolist()])
            arrays = found.capacity, found.node_scores, found.all_fits()
            given_back = tuple(array[rows].tolist() for array in arrays)
            plain, fits, best = plainly(ledger, scorer, question)
            assert given_back == plain
            assert order_of(fits, scored) == best
        if data.draw(st.booleans()):
            ledger = next_ledger(data.draw, ledger)
            scorer = placer.prepare(ledger, [(Shape(cpu_milli=data.draw(st.sampled_from((1_000, 6_000)))), 3.0)])
            fit_cache = fit_cache.follow(ledger, scorer)
        for _ in range(data.draw(st.integers(0, 3))):
            lay(data.draw, ledger, held)


def next_ledger(draw: Callable[..., Any], ledger: Ledger) -> Ledger:
    """The same holders in the next cycle: some nodes have other amounts, or are ready or shared no more, or again."""
    changed = [
        replace(
            node,
            cpu_milli=draw(st.sampled_from((node.cpu_milli, 9_000))),
            ready=draw(st.integers(0, 4)) > 0,
            shared_by_queues=draw(st.booleans()),
            gpus=tuple(replace(gpu, healthy=draw(st.integers(0, 4)) > 0) for gpu in node.gpus),
        )
        for node in ledger.inventory.nodes
        if draw(st.booleans())
    ]
    return ledger.with_inventory(ledger.inventory.patched(changed))


def test_in_the_next_cycle_only_changed_rows_are_judged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    fit_cache, scorer = cache()
    _ = fit_cache.shape_fit(Shape(cpu_milli=1), US).capacity
    judged: list[object] = []

    def noted(ledger: Ledger, shape: Shape, rows: IntArray, fits: BoolArray, *, distinct: bool) -> IntArray:
        judged.append(rows.tolist())
        return capacity(ledger, shape, rows, fits, distinct=distinct)

    monkeypatch.setattr("cotenant.core.placement.fit_cache.capacity", noted)
    ledger = fit_cache.ledger.copy()
    ledger.allocate(SHARE)
    after = fit_cache.follow(ledger, scorer)

    assert after.shape_fit(Shape(cpu_milli=1), US).capacity.tolist() == [2, 1, 2, 2]
    assert judged == [[1]]


def test_a_cache_can_follow_one_ledger_after_another_and_back() -> None:
    fit_cache, scorer = cache()
    first, second = fit_cache.ledger, fit_cache.ledger.copy()
    second.allocate(GPU)
    for ledger in (first, second, first, second):
        fit_cache = fit_cache.follow(ledger, scorer)
        assert answers(fit_cache.shape_fit(HALF, US)) == answers(FitCache(ledger.copy(), scorer).shape_fit(HALF, US))


def test_nothing_is_reused_for_a_ledger_of_other_nodes() -> None:
    fit_cache, scorer = cache()
    fit_cache.shape_fit(HALF, US)
    after = fit_cache.follow(Ledger.of([make_node("n0", gpus=3)]), scorer)

    assert after.shape_fit(HALF, US).capacity.tolist() == [3]


def test_the_log_of_changes_is_restarted_after_many_cycles() -> None:
    """What is asked for in each cycle, and what is asked for at last, is right throughout."""
    fit_cache, scorer = cache()
    fit_cache.shape_fit(Shape(), US)
    longest = 0
    for _ in range(40):
        fit_cache.ledger.allocate(SHARE)
        assert fit_cache.shape_fit(HALF, US).capacity.tolist() == [2, 2, 2, 2]
        ledger = fit_cache.ledger.copy()
        ledger.release(SHARE)
        fit_cache = fit_cache.follow(ledger, scorer)
        longest = max(longest, len(fit_cache.ledger.changed_rows))

    assert fit_cache.shape_fit(Shape(), US).capacity.tolist() == [2, 2, 2, 2]
    assert longest <= 8 * 4 + 2


@pytest.mark.parametrize(
    ("changed", "rows"),
    [
        pytest.param({}, [], id="none, where nothing is other"),
        pytest.param({"n1": {"ready": False}}, [1], id="a node that is not ready"),
        pytest.param({"n2": {"shared_by_queues": True}}, [2], id="one that queues share"),
        pytest.param({"n0": {"ready": False}, "n2": {"shared_by_queues": True}}, [0, 2], id="each of several"),
    ],
)
def test_fits_are_reused_for_the_next_ledger_except_for_changed_rows(
    changed: dict[str, dict[str, Any]], rows: list[int]
) -> None:
    nodes = [make_node(f"n{number}") for number in range(3)]
    before = FitCache(Ledger.of(nodes), BestFit())
    before.shape_fit(HALF, US)
    inventory = before.ledger.inventory.patched([replace(node, **changed.get(node.name, {})) for node in nodes])
    after = before.follow(before.ledger.with_inventory(inventory), BestFit())

    assert list(after.ledger.changed_rows) == rows


@pytest.mark.parametrize(
    ("nodes", "rows", "most"), [(2, 130, 65), (1, 66, 66), (2, 10, 64), (0, 70, 70)],
    ids=["as many as fit into the rows", "of one node", "never less than 64", "of none as of one"],
)  # fmt: skip
def test_the_number_of_cached_questions_is_bounded_and_the_oldest_is_dropped(
    nodes: int, rows: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cotenant.core.placement.fit_cache._ROWS", rows)
    kept, _ = cache(nodes)
    first = kept.shape_fit(HALF, US)
    for cpu in range(1, most):
        kept.shape_fit(replace(HALF, cpu_milli=cpu), US)
    assert kept.shape_fit(HALF, US) is first
    for cpu in range(most, 2 * most):
        kept.shape_fit(replace(HALF, cpu_milli=cpu), US)
    assert kept.shape_fit(HALF, US) is not first
    second = kept.shape_fit(replace(HALF, cpu_milli=2 * most - 1), US)
    for cpu in range(most - 1):
        kept.shape_fit(replace(HALF, host_mib=1 + cpu), US)
    assert kept.shape_fit(replace(HALF, cpu_milli=2 * most - 1), US) is second
    for cpu in range(most):
        kept.shape_fit(replace(HALF, host_mib=1_000 + cpu), US)
    assert kept.shape_fit(replace(HALF, cpu_milli=2 * most - 1), US) is not second


def test_the_number_of_cached_scores_is_bounded_and_the_oldest_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cotenant.core.placement.fit_cache._SCORED_ROWS", 0)
    kept, scorer = cache(1)

    def ask(cpu_milli: int) -> int:
        """How often shapes have been scored so far."""
        kept.scores(replace(HALF, cpu_milli=cpu_milli), np.array([0]), np.ones((1, 2), dtype=np.bool_))
        return len(scorer.scored)

    assert [ask(cpu) for cpu in range(64)][-1] == 64
    assert ask(0) == 64  # now the second is the oldest
    assert [ask(64), ask(0), ask(1)] == [65, 65, 66]
