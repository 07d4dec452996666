"""Values of all kinds as tensors, and back."""

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cotenant_worker.collectives import tensors


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        pytest.param(3, "int64", id="a whole number"),
        pytest.param(True, "int64", id="a truth value"),
        pytest.param(1.5, "float64", id="a number"),
        pytest.param([1.0, 2.0], "float64", id="a list"),
        pytest.param(np.arange(3, dtype=np.uint16), "uint16", id="an array"),
        pytest.param(np.arange(3.0)[::-1], "float64", id="an array that lies backwards"),
        pytest.param(np.float32(2), "float32", id="a scalar of numpy's"),
    ],
)
def test_a_value_keeps_its_type_on_the_way(value: Any, dtype: str) -> None:
    import torch

    tensor = tensors.to_tensor(torch, value, in_place=False)
    assert str(tensor.dtype) == f"torch.{dtype}"
    back = tensors.from_tensor(value, tensor)
    assert np.array_equal(back, value)
    assert getattr(back, "dtype", None) == getattr(value, "dtype", None)


@pytest.mark.parametrize(
    ("name", "carried"),
    [("float32", "float32"), ("bfloat16", "bfloat16"), ("bool", "int32"), ("int16", "int32"), ("uint32", "int64")],
)
def test_types_that_no_collective_knows_travel_in_wider_ones(name: str, carried: str) -> None:
    import torch

    found = tensors.carried(torch, torch.ones(2, dtype=getattr(torch, name)), "sum")
    assert str(found.dtype) == f"torch.{carried}"


def test_complex_numbers_travel_as_their_parts_if_that_is_right() -> None:
    import torch

    assert tensors.carried(torch, torch.ones(2, dtype=torch.complex64), "mean").shape == (2, 2)
    with pytest.raises(ValueError, match="complex64 has no prod"):
        tensors.carried(torch, torch.ones(2, dtype=torch.complex64), "prod")
    with pytest.raises(ValueError, match="uint64 cannot be reduced; pass int64 or float64"):
        tensors.carried(torch, torch.ones(2, dtype=torch.uint64), "sum")


class OnGpu:
    """Such as a CuPy array: it goes to another library by DLPack, and refuses to become an array of numpy's."""

    __module__ = "cupy"

    def __init__(self, values: Any) -> None:
        self.held = np.asarray(values)
        self.shape = self.held.shape

    def __dlpack__(self, **how: Any) -> Any:
        return self.held.__dlpack__(**how)

    def __dlpack_device__(self) -> Any:
        return self.held.__dlpack_device__()

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed")


def test_a_cupy_array_stays_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(from_dlpack=np.from_dlpack))
    value = OnGpu([1.0, 2.0])
    tensor = tensors.to_tensor(torch, value, in_place=False)
    assert tensor.tolist() == [1.0, 2.0]
    assert tensors.from_tensor(value, tensor * 2).tolist() == [2.0, 4.0]
