"""`all_reduce` for anything: numbers, arrays, tensors; over torch.distributed where it runs, else a ring of our own.

The ring needs no framework: ranks meet at `COTENANT_REDUCE_ADDR` (rank 0 listens there), connect to their right-hand
neighbour, and reduce in two rounds (reduce-scatter, all-gather), each rank sending 2·(n-1)/n of the data. All ranks
must call in the same order. Frameworks may be mixed: a torch rank without a process group and a JAX rank can reduce
with each other, because what travels is bytes.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
from typing import Any

from cotenant_worker.handshake import own_secret
from cotenant_worker.ring import Op, Ring, form_ring


def all_reduce(value: Any, op: Op = "sum") -> Any:
    """The same kind of value back, reduced over all ranks; the argument is not changed."""
    if op not in ("sum", "mean", "max", "min", "prod"):
        raise ValueError(f"op must be sum, mean, max, min or prod, not {op!r}")
    if _world() == 1:
        return value.clone() if hasattr(value, "clone") else value.copy() if hasattr(value, "copy") else value
    torch = _torch_distributed()
    if torch is not None:
        return _with_torch(torch, value, op)
    return _with_ring(value, op)


def broadcast(value: Any, root: int = 0) -> Any:
    """`value` of rank `root`, on every rank; anything that JSON can carry."""
    if _world() == 1:
        return value
    mine = json.dumps(value).encode() if _rank() == root else b""
    return json.loads(_ring().all_gather(mine)[root])


def barrier() -> None:
    """Return when every rank has come here."""
    if _world() > 1:
        torch = _torch_distributed()
        if torch is not None:
            torch.distributed.barrier()
        else:
            _ring().all_gather(b"")


def _world() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def _rank() -> int:
    return int(os.environ.get("RANK", "0"))


# -- over torch ----------------------------------------------------------------------------------------------------


def _torch_distributed() -> Any:
    """torch, when its default process group is up; it is never imported for this."""
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return torch


def _with_torch(torch: Any, value: Any, op: Op) -> Any:
    distributed = torch.distributed
    operations = {"sum": "SUM", "mean": "SUM", "max": "MAX", "min": "MIN", "prod": "PRODUCT"}
    reduce_op = getattr(distributed.ReduceOp, operations[op])
    is_tensor = isinstance(value, torch.Tensor)
    tensor = value.detach().clone() if is_tensor else torch.as_tensor(value, dtype=_dtype(torch, value)).clone()
    home = tensor.device
    if distributed.get_backend() == "nccl" and home.type == "cpu":
        tensor = tensor.cuda()
    distributed.all_reduce(tensor, op=reduce_op)
    if op == "mean":
        world = distributed.get_world_size()
        tensor = tensor / world
    tensor = tensor.to(home)
    if is_tensor:
        return tensor
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return _like(value, tensor.numpy())
    return tensor.item()


def _dtype(torch: Any, value: Any) -> Any:
    if isinstance(value, bool | int):
        return torch.int64
    return torch.float64 if isinstance(value, float) else None


# -- over the ring -------------------------------------------------------------------------------------------------


def _with_ring(value: Any, op: Op) -> Any:
    if isinstance(value, bool | int | float):
        gathered = _ring().all_gather(json.dumps(value).encode())
        return _reduce_numbers([json.loads(part) for part in gathered], op)
    import numpy as np

    source = value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)
    reduced = _ring().all_reduce(np.ascontiguousarray(source), op)
    return _like(value, reduced)


def _reduce_numbers(values: list[Any], op: Op) -> Any:
    """In rank order on every rank, so that all get the same bits."""
    if op == "mean":
        return sum(values) / len(values)
    if op == "prod":
        product = values[0]
        for each in values[1:]:
            product *= each
        return product
    return sum(values) if op == "sum" else max(values) if op == "max" else min(values)


def _like(value: Any, array: Any) -> Any:
    """`array` as the framework of `value` has it."""
    kind = type(value).__module__.split(".")[0]
    if kind == "torch":
        import torch

        return torch.from_numpy(array).to(value.device)
    if kind in ("jax", "jaxlib"):
        import jax.numpy as jnp

        return jnp.asarray(array)
    if kind == "tensorflow":
        import tensorflow as tf

        return tf.convert_to_tensor(array)
    if kind == "cupy":
        import cupy

        return cupy.asarray(array)
    return array if hasattr(value, "shape") else array.tolist()


# -- this process's ring ----------------------------------------------------------------------------------------------

_rings: dict[tuple[int, str], Ring] = {}


def _ring() -> Ring:
    """This process's ring, formed at the first collective."""
    address = os.environ.get("COTENANT_REDUCE_ADDR") or _fallback_address()
    key = (os.getpid(), address)
    if key not in _rings:
        _rings[key] = form_ring(_rank(), _world(), address, own_secret())
        atexit.register(_rings[key].right.close)
    return _rings[key]


def _fallback_address() -> str:
    """Under another launcher: a port beside torchrun's."""
    return f"{os.environ['MASTER_ADDR']}:{int(os.environ['MASTER_PORT']) + 1}"
