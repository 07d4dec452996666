"""`all_reduce` of any kind of value."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cotenant_worker.collectives import all_reduce
from cotenant_worker.collectives.ring import Op, Ring
from tests.worker.collectives.rings import on_ring


@pytest.mark.parametrize(
    ("value", "op", "why"),
    [
        pytest.param(1.5, "sum", "this float cannot be changed", id="a number"),
        pytest.param(np.float64(1), "sum", "this float64 cannot be changed", id="a scalar"),
        pytest.param(np.arange(3), "mean", "the mean of int64 is not int64", id="the mean of whole numbers"),
    ],
)
def test_what_cannot_change_in_place_is_refused(value: Any, op: Op, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        all_reduce.all_reduce(value, op, in_place=True)


@pytest.mark.parametrize(
    ("value", "op", "want"),
    [([1, 2], "sum", 3), ([1.5, 2.5], "mean", 2.0), ([1, 5], "max", 5), ([1, 5], "min", 1), ([3, 5], "prod", 15)],
)
def test_numbers_reduce_as_numbers(value: list[Any], op: Op, want: Any) -> None:
    assert all_reduce._reduce_numbers(value, op) == want


def test_a_world_of_one_reduces_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "1")
    source = np.ones(3)
    found = all_reduce.all_reduce(source, "mean")
    assert found.tolist() == [1.0, 1.0, 1.0]
    assert found is not source
    assert all_reduce.broadcast({"a": 1}) == {"a": 1}


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A torch process group, of this process only; `all_reduce` believes in two ranks and asks it."""
    import torch.distributed as dist

    monkeypatch.setenv("WORLD_SIZE", "2")
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("in_place", [False, True])
def test_a_tensor_keeps_its_kind_on_its_way_over_the_ring(monkeypatch: pytest.MonkeyPatch, in_place: bool) -> None:
    import torch

    tensors = [torch.arange(20_000.0).reshape(100, 200).T * (rank + 1) for rank in range(2)]  # not contiguous
    sources = [tensor.clone() for tensor in tensors]

    def work(ring: Ring) -> Any:
        monkeypatch.setattr(all_reduce, "_ring", lambda: rings[threading.get_ident()])
        rings[threading.get_ident()] = ring
        return all_reduce._with_ring(tensors[ring.rank], "mean", in_place)

    rings: dict[int, Ring] = {}
    for rank, found in enumerate(on_ring(2, work)):
        assert torch.equal(found, sources[0] * 1.5)
        assert (found is tensors[rank]) is in_place
        assert torch.equal(tensors[rank], found if in_place else sources[rank])


def test_an_unknown_operation_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="op must be sum, mean, max, min or prod, not 'avg'"):
        all_reduce.all_reduce(1, "avg")  # type: ignore[arg-type]
