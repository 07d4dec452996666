"""`all_reduce` over torch's process group, and the values that take the ring beside one.

Those are large and lie on the CPU: the ring copies nothing that it can reduce on the way, and sends while it receives.
Two ranks on two cores had 2.1 times gloo's speed so, in place, in the one run with nothing beside it; with some 25
processes in line for the cores it was 0.5 times (`bench/worker/allreduce.py`; docs/worker.md has the conditions).
"""

from __future__ import annotations

from typing import Any

OPS = {"sum": "SUM", "mean": "SUM", "max": "MAX", "min": "MIN", "prod": "PRODUCT"}
"""Name of an operation here → its name in torch."""
_RING_FROM_BYTES = 64 << 10
"""Below, both take as long as the network does."""
_RING_DTYPES = ("float32", "float64", "int32", "int64")
"""Types that numpy reduces as torch does."""


def all_reduce_tensor(torch: Any, tensor: Any, op: str, *, in_place: bool) -> Any:
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


def takes_ring(torch: Any, value: Any, op: str, *, rank: int, world: int) -> bool:
    """True for values that go over the ring; ranks agree on values of one kind. Only for groups of all ranks."""
    distributed = torch.distributed
    if distributed.get_backend() == "nccl" or (distributed.get_rank(), distributed.get_world_size()) != (rank, world):
        return False
    if isinstance(value, torch.Tensor):
        if value.device.type != "cpu" or value.layout is not torch.strided:
            return False
    elif type(value).__module__ != "numpy" or not hasattr(value, "nbytes"):
        return False
    kind = str(value.dtype).removeprefix("torch.")
    return int(value.nbytes) >= _RING_FROM_BYTES and kind in _RING_DTYPES and (op != "mean" or kind.startswith("float"))
