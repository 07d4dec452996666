"""Converts values of any framework to torch tensors and back, and to types that a collective can carry."""

from __future__ import annotations

from typing import Any, Final

_CARRIED_AS: Final = {"bool": "int32", "int16": "int32", "uint16": "int32", "uint32": "int64"}
"""Types that neither gloo nor NCCL reduces → a wider type that holds their values."""


def to_tensor(torch: Any, value: Any, *, in_place: bool) -> Any:
    """`value` as a tensor. It shares memory with `value` if it is reduced in place, and may do so otherwise."""
    if isinstance(value, torch.Tensor):
        return value.detach()
    if isinstance(value, bool | int):
        return torch.tensor(int(value), dtype=torch.int64)
    if isinstance(value, float):
        return torch.tensor(value, dtype=torch.float64)
    if type(value).__module__.split(".")[0] == "cupy":
        return torch.from_dlpack(value)  # it stays on its GPU, from where numpy would not take it
    import numpy as np

    array = np.asarray(value)
    if not in_place and (not array.flags.writeable or min(array.strides, default=0) < 0):
        array = np.array(array)
    if array.dtype.name == "bfloat16":  # of JAX and TensorFlow; numpy knows its bits only
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def from_tensor(value: Any, tensor: Any) -> Any:
    """`tensor` converted to the framework of `value`."""
    kind = type(value).__module__.split(".")[0]
    if kind == "torch":
        return tensor
    if not hasattr(value, "shape"):
        return tensor.item() if isinstance(value, int | float) else tensor.tolist()
    if kind == "cupy":
        import cupy

        return cupy.from_dlpack(tensor)
    if str(tensor.dtype) == "torch.bfloat16":
        import ml_dtypes
        import torch

        array = tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    else:
        array = tensor.numpy()
    if kind in ("jax", "jaxlib"):
        import jax.numpy as jnp

        return jnp.asarray(array)
    if kind == "tensorflow":
        import tensorflow as tf

        return tf.convert_to_tensor(array)
    return array


def carried(torch: Any, tensor: Any, op: str) -> Any:
    """`tensor` in a type that collectives reduce: itself, a view of its parts, or a wider type. Raises ValueError if
    there is none.
    """
    name = str(tensor.dtype).removeprefix("torch.")
    if tensor.is_complex():
        if op not in ("sum", "mean"):
            raise ValueError(f"all_reduce: {name} has no {op}")
        return torch.view_as_real(tensor)
    if name == "uint64":
        raise ValueError("all_reduce: uint64 cannot be reduced; pass int64 or float64")
    return tensor.to(getattr(torch, _CARRIED_AS[name])) if name in _CARRIED_AS else tensor
