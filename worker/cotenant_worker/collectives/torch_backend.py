"""`all_reduce` over torch's process group, and which values had better not go that way.

What is large and lies on the CPU is quicker over our own ring than over gloo, its copy included (`bench/allreduce.py`):
the ring copies nothing that it can reduce on the way, and is sending and receiving at the same time.
"""

from __future__ import annotations

from typing import Any

OPS = {"sum": "SUM", "mean": "SUM", "max": "MAX", "min": "MIN", "prod": "PRODUCT"}
"""Ours and torch's."""
_LARGE = 64 << 10
"""Bytes. Below, either takes as long as the network does."""
_PLAIN = ("float32", "float64", "int32", "int64")
"""What numpy reduces as torch does."""


def reduced(torch: Any, tensor: Any, op: str, *, in_place: bool) -> Any:
    """The reduced tensor: new, on the same device; or `tensor` itself."""
    distributed = torch.distributed
    backend = distributed.get_backend()
    target = tensor.contiguous() if in_place else tensor.clone(memory_format=torch.contiguous_format)
    if backend == "nccl" and tensor.device.type == "cpu":
        target = tensor.cuda()
    distributed.all_reduce(target, op=getattr(distributed.ReduceOp, OPS[op]))
    if op == "mean":
        world = distributed.get_world_size()
        target = target.div_(world) if target.is_floating_point() or target.is_complex() else target / world
    if in_place:
        return tensor if target is tensor else tensor.copy_(target)
    return target.to(tensor.device)


def rather_ring(torch: Any, value: Any, op: str, *, rank: int, world: int) -> bool:
    """The same answer on every rank that brings the same kind of value. Only for groups that are the ring's ranks."""
    distributed = torch.distributed
    if distributed.get_backend() == "nccl" or (distributed.get_rank(), distributed.get_world_size()) != (rank, world):
        return False
    if isinstance(value, torch.Tensor):
        if value.device.type != "cpu" or value.layout is not torch.strided:
            return False
    elif type(value).__module__ != "numpy" or not hasattr(value, "nbytes"):
        return False
    kind = str(value.dtype).removeprefix("torch.")
    return int(value.nbytes) >= _LARGE and kind in _PLAIN and (op != "mean" or kind.startswith("float"))
