"""`all_reduce` for numbers, arrays and tensors, over torch's process group or a gloo group of its own.

If the program has no process group of torch at the first call, a `gloo_group` is made: ranks meet at
`COTENANT_REDUCE_ADDR`. All ranks must call in the same order. Frameworks may be mixed: a torch rank without a process
group and a JAX rank can reduce with each other. Only torch has to be installed.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
from typing import Any, Final, Literal

from cotenant_worker.collectives import tensors
from cotenant_worker.collectives.gloo_group import GlooGroup, form_group
from cotenant_worker.host.addresses import at
from cotenant_worker.reporting import heartbeat, launcher

Op = Literal["sum", "mean", "max", "min", "prod"]
_OPS: Final = {"sum": "SUM", "mean": "SUM", "max": "MAX", "min": "MIN", "prod": "PRODUCT"}
"""Name of an operation here → its name in torch."""


def all_reduce(value: Any, op: Op = "sum", *, in_place: bool = False) -> Any:
    """Reduce a value over all ranks. Returns the same kind of value.

    The argument is not changed, which costs a copy. With `in_place`, a torch tensor or a numpy array is reduced in its
    own memory and returned. Raises ValueError if the value cannot be changed in place.
    """
    if op not in _OPS:
        raise ValueError(f"op must be sum, mean, max, min or prod, not {op!r}")
    if in_place:
        _check_in_place(value, op)
    elif not (isinstance(value, bool | int | float | list | tuple) or hasattr(value, "shape")):
        kind = type(value).__name__
        raise TypeError(f"all_reduce takes numbers, arrays and tensors, not {kind}; call it for each value in it")
    if _world() == 1 and _default_group() is None:
        return value if in_place else _copy(value)
    torch = _torch()
    source = tensors.to_tensor(torch, value, in_place=in_place)
    if op == "mean" and isinstance(value, int):
        source = source.double()
    target = source.contiguous() if in_place else source.clone(memory_format=torch.contiguous_format)
    reduced = _reduce(torch, target, op)
    if not in_place:
        return tensors.from_tensor(value, reduced)
    if reduced.data_ptr() != source.data_ptr() or reduced.dtype != source.dtype:
        source.copy_(reduced)  # it lay scattered, on another device, or came in a type that had to be widened
    return value


def broadcast(value: Any, root: int = 0) -> Any:
    """The value of rank `root`, on every rank. It may be anything that JSON can carry."""
    if _world() == 1:
        return value
    mine = json.dumps(value).encode() if _rank() == root else b""
    length = all_reduce(len(mine))
    torch = _torch()
    data = torch.frombuffer(bytearray(mine or bytes(length)), dtype=torch.uint8)
    return json.loads(bytes(all_reduce(data, in_place=True).tolist()))


def barrier() -> None:
    """Return when every rank has called it."""
    if _world() > 1:
        all_reduce(0)


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


def _copy(value: Any) -> Any:
    return value.clone() if hasattr(value, "clone") else value.copy() if hasattr(value, "copy") else value


def _world() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def _rank() -> int:
    return int(os.environ.get("RANK", "0"))


# -- the reduction -------------------------------------------------------------------------------------------------


def _reduce(torch: Any, target: Any, op: Op) -> Any:
    """The reduced tensor, on the device of `target`; `target` itself if its type can be reduced directly."""
    moved = tensors.carried(torch, target, op)
    distributed = _default_group()
    if distributed is None:
        group = _own_group()
        moved = moved.cpu()
        group.all_reduce(moved, _OPS[op])
        size = group.size
    else:
        moved = moved.cuda() if moved.device.type == "cpu" and _is_on_gpus(torch, distributed) else moved
        distributed.all_reduce(moved, op=getattr(distributed.ReduceOp, _OPS[op]))
        size = distributed.get_world_size()
    reduced = moved.to(target.device)
    if target.is_complex():
        reduced = torch.view_as_complex(reduced)
    if op == "mean":
        return reduced.div_(size) if reduced.is_floating_point() or reduced.is_complex() else reduced / size
    return reduced.to(target.dtype)


def _default_group() -> Any:
    """torch.distributed, if its default process group exists. torch is never imported for this."""
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    return distributed if distributed and distributed.is_available() and distributed.is_initialized() else None


def _is_on_gpus(torch: Any, distributed: Any) -> bool:
    """True if the default group may not take tensors of the CPU. A backend that torch chose itself is "undefined"."""
    backend = distributed.get_backend()
    return bool(backend == "nccl" or (backend == "undefined" and torch.cuda.is_available()))


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            "all_reduce, broadcast and barrier need torch, which this image does not have: pip install torch"
            " (the build for the CPU is enough)"
        ) from error
    return torch


_groups: Final[dict[tuple[int, str], GlooGroup]] = {}


def _own_group() -> GlooGroup:
    """This process's gloo group, formed at the first collective."""
    address = os.environ.get("COTENANT_REDUCE_ADDR") or _fallback_address()
    key = (os.getpid(), address)
    if key not in _groups:
        with heartbeat.rendezvous():
            group = _groups[key] = form_group(_rank(), _world(), address)
        heartbeat.rendezvoused = True
        launcher.warn("isolated-ranks", "")  # takes that warning back: the ranks have met after all
        atexit.register(group.close)
        heartbeat.collectives["own group"] = lambda: group.entered
    return _groups[key]


def _fallback_address() -> str:
    """Address under another launcher: a port next to torchrun's."""
    return at(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]) + 1)
