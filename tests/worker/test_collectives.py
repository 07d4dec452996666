"""`all_reduce` without a framework: ranks are threads, the ring is real TCP on loopback."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from cotenant_worker import collectives, ring
from cotenant_worker.conductor import free_ports
from cotenant_worker.ring import Op, PeerGoneError, Ring, form_ring


def on_ring(size: int, work: Callable[[Ring], Any]) -> list[Any]:
    """What `work` returns on every rank of a fresh ring."""
    address = f"127.0.0.1:{free_ports('127.0.0.1', 1)[0]}"

    def rank(number: int) -> Any:
        ring = form_ring(number, size, address, "secret")
        try:
            return work(ring)
        finally:
            ring.right.close()
            ring.left.close()

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(rank, range(size)))


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("length", [0, 1, 4, 1000, 300_000])
@pytest.mark.parametrize("op", ["sum", "mean", "max", "min", "prod"])
def test_arrays_of_every_length_reduce_to_the_same_on_every_rank(size: int, length: int, op: Op) -> None:
    parts = [np.random.default_rng(rank).uniform(0.5, 1.5, length) for rank in range(size)]
    want = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "prod": np.prod}[op](parts, axis=0)
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


def test_ranks_that_disagree_are_told_so_instead_of_hanging() -> None:
    with pytest.raises(ValueError, match=r"ranks disagree: \[\[\[2\], '<f8'\], \[\[3\], '<f8'\]\]"):
        on_ring(2, lambda it: it.all_reduce(np.zeros(2 + it.rank), "sum"))


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


@pytest.mark.parametrize(
    ("value", "op", "want"),
    [([1, 2], "sum", 3), ([1.5, 2.5], "mean", 2.0), ([1, 5], "max", 5), ([1, 5], "min", 1), ([3, 5], "prod", 15)],
)
def test_numbers_reduce_as_numbers(value: list[Any], op: Op, want: Any) -> None:
    assert collectives._reduce_numbers(value, op) == want


def test_a_world_of_one_reduces_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "1")
    source = np.ones(3)
    found = collectives.all_reduce(source, "mean")
    assert found.tolist() == [1.0, 1.0, 1.0]
    assert found is not source
    assert collectives.broadcast({"a": 1}) == {"a": 1}


def test_an_unknown_operation_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="op must be sum, mean, max, min or prod, not 'avg'"):
        collectives.all_reduce(1, "avg")  # type: ignore[arg-type]


def test_who_does_not_know_the_secret_is_not_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring, "_JOIN_S", 0.5)
    address = f"127.0.0.1:{free_ports('127.0.0.1', 1)[0]}"
    with ThreadPoolExecutor(2) as pool:
        good = pool.submit(form_ring, 0, 2, address, "secret")
        bad = pool.submit(form_ring, 1, 2, address, "guess")
        with pytest.raises(TimeoutError, match=r"ranks \[1\] did not come"):
            good.result(20)
        assert isinstance(bad.exception(20), OSError)
    assert "COTENANT_REDUCE_ADDR" not in os.environ
