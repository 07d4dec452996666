"""The ring reduces and gathers without a framework: ranks are threads, TCP is real."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cotenant_worker.collectives.duplex_socket import PeerGoneError
from cotenant_worker.collectives.ring import Op, Ring
from tests.worker.collectives.rings import on_ring


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("length", [0, 1, 4, 1000, 300_000])
@pytest.mark.parametrize("op", ["sum", "mean", "max", "min", "prod"])
def test_arrays_of_every_length_reduce_to_the_same_on_every_rank(size: int, length: int, op: Op) -> None:
    parts = [np.random.default_rng(rank).uniform(0.5, 1.5, length) for rank in range(size)]
    reduce: dict[str, Callable[..., Any]] = {
        "sum": np.sum,
        "mean": np.mean,
        "max": np.max,
        "min": np.min,
        "prod": np.prod,
    }
    want = reduce[op](parts, axis=0)
    found = on_ring(size, lambda it: it.all_reduce(parts[it.rank], op))
    for array in found:
        np.testing.assert_allclose(array, want, rtol=1e-12)
        assert np.array_equal(array, found[0])


def test_shape_and_type_stay_and_the_argument_is_not_changed() -> None:
    source = np.arange(6, dtype=np.int32).reshape(2, 3)
    found = on_ring(2, lambda it: it.all_reduce(source, "sum"))
    assert found[0].dtype == np.int32
    assert found[0].tolist() == [[0, 2, 4], [6, 8, 10]]
    assert source.tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("length", [2, 300_000])
def test_ranks_that_disagree_are_told_so_instead_of_hanging(length: int) -> None:
    def work(ring: Ring) -> str:
        with pytest.raises(ValueError, match="ranks disagree") as found:
            ring.all_reduce(np.zeros(length + ring.rank), "sum")
        return str(found.value)

    assert on_ring(2, work) == [
        f"all_reduce: ranks disagree: rank 0 does sum of <f8 [{length}], rank 1 does sum of <f8 [{length + 1}]",
        f"all_reduce: ranks disagree: rank 1 does sum of <f8 [{length + 1}], rank 0 does sum of <f8 [{length}]",
    ]


def test_different_collectives_at_the_same_time_are_told_apart() -> None:
    def work(ring: Ring) -> str:
        with pytest.raises(ValueError, match="ranks disagree") as found:
            ring.all_gather(b"x") if ring.rank == 0 else ring.all_reduce(np.arange(3), "max")
        return str(found.value)

    assert on_ring(2, work) == [
        "all_reduce: ranks disagree: rank 0 does all_gather, rank 1 does max of <i8 [3]",
        "all_reduce: ranks disagree: rank 1 does max of <i8 [3], rank 0 does all_gather",
    ]


@pytest.mark.parametrize("length", [5, 300_000])
@pytest.mark.parametrize("op", ["sum", "mean", "prod"])
def test_in_place_the_array_itself_becomes_the_result(length: int, op: Op) -> None:
    parts = [np.random.default_rng(rank).uniform(0.5, 1.5, length) for rank in range(3)]
    fresh = on_ring(3, lambda it: it.all_reduce(parts[it.rank], op))

    def work(ring: Ring) -> bool:
        return ring.all_reduce(parts[ring.rank], op, in_place=True) is parts[ring.rank]

    assert on_ring(3, work) == [True] * 3
    for part in parts:
        assert np.array_equal(part, fresh[0])


def test_a_rank_that_leaves_is_noticed_by_its_neighbours() -> None:
    def work(ring: Ring) -> str:
        if ring.rank == 1:
            return "left"
        with pytest.raises(PeerGoneError, match="rank 1 or rank 1 went away"):
            ring.all_reduce(np.zeros(10), "sum")
        return "noticed"

    assert on_ring(2, work) == ["noticed", "left"]


def test_bytes_are_gathered_in_rank_order() -> None:
    assert on_ring(3, lambda it: it.all_gather(b"x" * it.rank)) == [[b"", b"x", b"xx"]] * 3
