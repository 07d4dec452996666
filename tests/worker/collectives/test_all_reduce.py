"""`all_reduce` of any kind of value, over torch's process group and over one of its own."""

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cotenant_worker.collectives import all_reduce
from cotenant_worker.collectives.all_reduce import Op
from cotenant_worker.collectives.gloo_group import GlooGroup
from tests.worker.collectives.groups import in_group


@pytest.fixture
def process_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process group of torch's, of this process only; the job has two ranks."""
    import torch.distributed as dist

    monkeypatch.setenv("WORLD_SIZE", "2")
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[int], Any]], list[Any]]:
    """Runs a function on two ranks without a process group, and returns what each gave back."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    groups: dict[int, GlooGroup] = {}
    monkeypatch.setattr(all_reduce, "_own_group", lambda: groups[threading.get_ident()])
    monkeypatch.setattr(all_reduce, "_rank", lambda: groups[threading.get_ident()].rank)

    def run(work: Callable[[int], Any]) -> list[Any]:
        def on_rank(group: GlooGroup) -> Any:
            groups[threading.get_ident()] = group
            return work(group.rank)

        return in_group(2, on_rank)

    return run


Ranks = Callable[[Callable[[int], Any]], list[Any]]


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


@pytest.mark.parametrize("world", ["1", "2"], ids=["alone", "in a job"])
@pytest.mark.parametrize("value", [{"loss": 1.0}, None, "text"], ids=lambda value: type(value).__name__)
def test_what_is_no_number_is_refused_on_a_laptop_too(monkeypatch: pytest.MonkeyPatch, world: str, value: Any) -> None:
    monkeypatch.setenv("WORLD_SIZE", world)
    with pytest.raises(TypeError, match=f"not {type(value).__name__}; call it for each value in it"):
        all_reduce.all_reduce(value)


def test_an_unknown_operation_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="op must be sum, mean, max, min or prod, not 'avg'"):
        all_reduce.all_reduce(1, "avg")  # type: ignore[arg-type]


def test_without_torch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="need torch, which this image does not have: pip install torch"):
        all_reduce.all_reduce(1)


def test_a_world_of_one_reduces_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setitem(sys.modules, "torch", None)  # none is needed
    source = np.ones(3)
    found = all_reduce.all_reduce(source, "mean")
    assert found.tolist() == [1.0, 1.0, 1.0]
    assert found is not source
    assert all_reduce.broadcast({"a": 1}) == {"a": 1}


@pytest.mark.parametrize(
    ("values", "op", "want"),
    [
        ([1, 2], "sum", 3),
        ([1.5, 2.5], "mean", 2.0),
        ([1, 2], "mean", 1.5),
        ([(1 << 53) + 1, 0], "max", (1 << 53) + 1),
        ([1, 5], "min", 1),
        ([3, 5], "prod", 15),
        ([True, True], "sum", 2),
    ],
)
def test_numbers_reduce_as_numbers(ranks: Ranks, values: list[Any], op: Op, want: Any) -> None:
    found = ranks(lambda rank: all_reduce.all_reduce(values[rank], op))
    assert found == [want, want]
    assert type(found[0]) is type(want)


DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "float16", "float32", "complex64"]


def test_arrays_of_every_type_and_form_keep_them_and_are_not_changed(ranks: Ranks) -> None:
    def work(rank: int) -> list[str]:
        wrong = []
        for name in DTYPES:
            source = np.arange(6).reshape(2, 3).T.astype(name)
            before = source.copy()
            found = all_reduce.all_reduce(source)
            want = before if name == "bool" else before + before
            if (found.dtype, found.shape) != (source.dtype, (3, 2)) or not np.array_equal(found, want):
                wrong.append(name)
            if not np.array_equal(source, before):
                wrong.append(f"{name} was changed")
        return wrong

    assert ranks(work) == [[], []]


@pytest.mark.parametrize("scattered", [False, True], ids=["in one piece", "scattered"])
@pytest.mark.parametrize("kind", ["float32", "bfloat16", "int16"])
def test_in_place_a_tensor_itself_becomes_the_result(ranks: Ranks, kind: str, scattered: bool) -> None:
    import torch

    def work(rank: int) -> bool:
        rows = torch.arange(6).reshape(2, 3).to(getattr(torch, kind))
        tensor = rows.T if scattered else rows
        want = tensor * 2
        return all_reduce.all_reduce(tensor, in_place=True) is tensor and bool(torch.equal(tensor, want))

    assert ranks(work) == [True, True]


def test_in_place_an_array_itself_becomes_the_result(ranks: Ranks) -> None:
    def work(rank: int) -> list[float]:
        array = np.arange(3.0)
        assert all_reduce.all_reduce(array, "mean", in_place=True) is array
        return list(array)

    assert ranks(work) == [[0.0, 1.0, 2.0]] * 2


def test_a_value_of_one_rank_reaches_all(ranks: Ranks) -> None:
    def work(rank: int) -> Any:
        found = all_reduce.broadcast({"name": "ü", "rank": rank}, root=1)
        all_reduce.barrier()
        return found

    assert ranks(work) == [{"name": "ü", "rank": 1}] * 2


@pytest.mark.usefixtures("process_group")
def test_over_torch_a_tensor_is_copied_unless_it_may_be_changed() -> None:
    import torch

    tensor = torch.arange(6.0).reshape(2, 3).T  # not contiguous
    fresh = all_reduce.all_reduce(tensor, "mean")
    assert torch.equal(fresh, tensor)
    assert fresh.data_ptr() != tensor.data_ptr()
    assert all_reduce.all_reduce(tensor, "sum", in_place=True) is tensor
    assert torch.equal(fresh, tensor)


@pytest.mark.usefixtures("process_group")
def test_over_torch_the_mean_of_whole_numbers_is_not_whole() -> None:
    import torch

    assert all_reduce.all_reduce(torch.tensor([1, 2]), "mean").dtype == torch.float32


@pytest.mark.usefixtures("process_group")
def test_over_torch_arrays_and_numbers_keep_their_kind() -> None:
    array = np.arange(3, dtype=np.float32)
    fresh = all_reduce.all_reduce(array, "mean")
    assert (fresh.tolist(), fresh.dtype, np.shares_memory(fresh, array)) == ([0.0, 1.0, 2.0], np.float32, False)
    assert all_reduce.all_reduce(array, "mean", in_place=True) is array
    assert [all_reduce.all_reduce(value, "sum") for value in (2, 2.5)] == [2, 2.5]
    assert all_reduce.all_reduce(np.ones(2), "sum").tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("backend", "gpus", "on_gpus"),
    [("nccl", True, True), ("gloo", True, False), ("undefined", True, True), ("undefined", False, False)],
    ids=["NCCL", "gloo on a machine with GPUs", "what torch chose there", "what torch chose without GPUs"],
)
def test_a_group_that_takes_no_tensors_of_the_cpu_is_known(backend: str, gpus: bool, on_gpus: bool) -> None:
    torch = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: gpus))
    assert all_reduce._is_on_gpus(torch, SimpleNamespace(get_backend=lambda: backend)) is on_gpus
