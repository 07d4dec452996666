"""`all_reduce` for anything: numbers, arrays, tensors; over torch.distributed where it runs, or a ring of our own.

The ring (`ring_rendezvous`, `ring`) needs no framework: ranks meet at `COTENANT_REDUCE_ADDR` at the first call. All
ranks must call in the same order. Frameworks may be mixed: a torch rank without a process group and a JAX rank can
reduce with each other, because what travels is bytes. Beside a process group it takes large values on the
CPU (`torch_backend`).
"""

from __future__ import annotations

import atexit
import json
import os
import sys
from typing import Any

from cotenant_worker.collectives import torch_backend
from cotenant_worker.collectives.ring import Op, Ring
from cotenant_worker.collectives.ring_rendezvous import form_ring
from cotenant_worker.host.addresses import at
from cotenant_worker.messaging.hmac_handshake import own_secret
from cotenant_worker.reporting import heartbeat, launcher


def all_reduce(value: Any, op: Op = "sum", *, in_place: bool = False) -> Any:
    """The same kind of value back, reduced over all ranks.

    The argument is not changed, which costs a copy; with `in_place` a torch tensor or a numpy array is reduced where
    it lies and returned, as fast as the collective below it. ValueError when the value cannot be changed in place.
    """
    if op not in torch_backend.OPS:
        raise ValueError(f"op must be sum, mean, max, min or prod, not {op!r}")
    if in_place:
        _check_in_place(value, op)
    torch = _torch_distributed()
    if torch is not None and not (
        _in_a_job() and torch_backend.takes_ring(torch, value, op, rank=_rank(), world=_world())
    ):
        return _with_torch(torch, value, op, in_place=in_place)
    if _world() > 1:
        return _with_ring(value, op, in_place)
    if in_place:
        return value
    return value.clone() if hasattr(value, "clone") else value.copy() if hasattr(value, "copy") else value


def _check_in_place(value: Any, op: Op) -> None:
    kind = type(value).__module__.split(".")[0]
    if kind == "torch" and hasattr(value, "is_floating_point"):
        whole = not (value.is_floating_point() or value.is_complex())
    elif kind == "numpy" and hasattr(value, "flags") and value.flags.writeable:
        whole = value.dtype.kind not in "fc"
    else:
        raise ValueError(f"in_place: this {type(value).__name__} cannot be changed; torch tensors and numpy arrays can")
    if op == "mean" and whole:
        raise ValueError(f"in_place: the mean of {value.dtype} is not {value.dtype}")


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


def _in_a_job() -> bool:
    """True in a job: under another launcher no port is reserved for the ring."""
    return "COTENANT_REDUCE_ADDR" in os.environ


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


def _with_torch(torch: Any, value: Any, op: Op, *, in_place: bool) -> Any:
    if isinstance(value, torch.Tensor):
        result = torch_backend.all_reduce_tensor(torch, value.detach(), op, in_place=in_place)
    else:  # an array: the same memory
        result = torch_backend.all_reduce_tensor(
            torch, torch.as_tensor(value, dtype=_dtype(torch, value)), op, in_place=in_place
        )
    if in_place:
        return value
    if isinstance(value, torch.Tensor):
        return result
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return _like(value, result.numpy())
    return result.item()


def _dtype(torch: Any, value: Any) -> Any:
    if isinstance(value, bool | int):
        return torch.int64
    return torch.float64 if isinstance(value, float) else None


# -- over the ring -------------------------------------------------------------------------------------------------


def _with_ring(value: Any, op: Op, in_place: bool) -> Any:
    if isinstance(value, bool | int | float):
        gathered = _ring().all_gather(json.dumps(value).encode())
        return _reduce_numbers([json.loads(part) for part in gathered], op)
    import numpy as np

    source = _array(value)
    contiguous = np.ascontiguousarray(source)
    reduced = _ring().all_reduce(contiguous.reshape(source.shape), op, in_place=in_place)
    if not in_place:
        return _like(value, reduced)
    if not np.shares_memory(reduced, source):  # it lay scattered, or on a GPU
        source[...] = reduced
    if hasattr(value, "detach") and value.device.type != "cpu":
        value.detach().copy_(_like(value, reduced))
    return value


def _array(value: Any) -> Any:
    """The value as a numpy array: its own memory, or a copy where it lies on a device."""
    import numpy as np

    if not hasattr(value, "detach"):
        return np.asarray(value)
    try:
        return value.detach().cpu().numpy()
    except TypeError:
        raise TypeError(f"numpy has no {value.dtype}: without a torch process group reduce value.float()") from None


def _reduce_numbers(values: list[Any], op: Op) -> Any:
    """Reduce in rank order on every rank, so that all get the same bits."""
    if op == "mean":
        return sum(values) / len(values)
    if op == "prod":
        product = values[0]
        for each in values[1:]:
            product *= each
        return product
    return sum(values) if op == "sum" else max(values) if op == "max" else min(values)


def _like(value: Any, array: Any) -> Any:
    """`array` converted to the framework of `value`."""
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
        with heartbeat.rendezvous():
            ring = _rings[key] = form_ring(_rank(), _world(), address, own_secret())
        heartbeat.rendezvoused = True
        launcher.warn("isolated-ranks", "")  # takes that warning back: the ranks have met after all
        atexit.register(ring.close)
        heartbeat.collectives["ring"] = lambda: ring.entered
    return _rings[key]


def _fallback_address() -> str:
    """Address under another launcher: a port beside torchrun's."""
    return at(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]) + 1)
