"""Reductions over a process group of torch's, and what goes over the ring beside it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cotenant_worker.collectives import all_reduce, torch_backend
from cotenant_worker.collectives.ring import Op


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A torch process group, of this process only; `all_reduce` believes in two ranks and asks it."""
    import torch.distributed as dist

    monkeypatch.setenv("WORLD_SIZE", "2")
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("group")
def test_over_torch_a_tensor_is_copied_unless_it_may_be_changed() -> None:
    import torch

    tensor = torch.arange(6.0).reshape(2, 3).T  # not contiguous
    fresh = all_reduce.all_reduce(tensor, "mean")
    assert torch.equal(fresh, tensor)
    assert fresh.data_ptr() != tensor.data_ptr()
    assert all_reduce.all_reduce(tensor, "sum", in_place=True) is tensor
    assert torch.equal(fresh, tensor)


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize(
    ("value", "op", "world", "want"),
    [
        pytest.param(np.ones(8192), "mean", 1, True, id="a large array"),
        pytest.param(np.ones(8191), "mean", 1, False, id="a small one"),
        pytest.param(np.ones(8192, np.int64), "mean", 1, False, id="whole numbers whose mean is not"),
        pytest.param(np.ones(8192, np.int64), "sum", 1, True, id="whole numbers"),
        pytest.param(np.ones(8192, np.complex128), "sum", 1, False, id="a kind that torch reduces in its own way"),
        pytest.param([1.0] * 8192, "sum", 1, False, id="neither array nor tensor"),
        pytest.param(np.ones(8192), "mean", 2, False, id="a process group of other ranks than the job's"),
    ],
)
def test_large_values_on_the_cpu_go_over_the_ring(value: Any, op: Op, world: int, want: bool) -> None:
    import torch

    assert torch_backend.takes_ring(torch, value, op, rank=0, world=world) is want
    if isinstance(value, np.ndarray):
        assert torch_backend.takes_ring(torch, torch.from_numpy(value), op, rank=0, world=world) is want


@pytest.mark.usefixtures("group")
def test_over_torch_the_mean_of_whole_numbers_is_not_whole() -> None:
    import torch

    assert all_reduce.all_reduce(torch.tensor([1, 2]), "mean").dtype == torch.float32


@pytest.mark.usefixtures("group")
def test_over_torch_arrays_and_numbers_keep_their_kind() -> None:
    array = np.arange(3, dtype=np.float32)
    fresh = all_reduce.all_reduce(array, "mean")
    assert (fresh.tolist(), fresh.dtype, np.shares_memory(fresh, array)) == ([0.0, 1.0, 2.0], np.float32, False)
    assert all_reduce.all_reduce(array, "mean", in_place=True) is array
    assert [all_reduce.all_reduce(value, "sum") for value in (2, 2.5)] == [2, 2.5]
