"""`all_reduce` over torch's process group: as fast as the group where a tensor may change, not much slower where not.

What stays unchanged must be copied. A large tensor is therefore reduced in pieces, in place or not (ranks must agree
on the pieces, not on that): while the group has one piece under way, the next is copied, and finds its way into the
cache that the group then reads. The pages of a large result are asked for in the size that takes fewest faults.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections import deque
from typing import Any

OPS = {"sum": "SUM", "mean": "SUM", "max": "MAX", "min": "MIN", "prod": "PRODUCT"}
"""Ours and torch's."""
PIECE = 4 << 20
"""Bytes in one of the group's calls, where tensors are on the CPU."""
_UNDER_WAY = 3
_OWN_PAGES = 32 << 20
"""Bytes from which the C library always maps memory for one allocation alone."""
_HUGE_PAGE = 2 << 20
_MADV_HUGEPAGE = 14


def reduced(torch: Any, tensor: Any, op: str, *, in_place: bool) -> Any:
    """The reduced tensor: new, on the same device; or `tensor` itself."""
    distributed = torch.distributed
    if distributed.get_backend() == "nccl" and tensor.device.type == "cpu":
        source = target = tensor.cuda()
    elif not tensor.is_contiguous():
        source = target = tensor.contiguous()
    else:
        source, target = tensor, tensor if in_place else _room_for(torch, tensor)
    whole = not (tensor.is_floating_point() or tensor.is_complex())
    world = distributed.get_world_size() if op == "mean" and not whole else 1
    _reduce(distributed, source, target, getattr(distributed.ReduceOp, OPS[op]), world)
    if in_place:
        return tensor if target is tensor else tensor.copy_(target)
    if op == "mean" and whole:
        target = target / distributed.get_world_size()
    return target.to(tensor.device)


def _reduce(distributed: Any, source: Any, target: Any, op: Any, divisor: int) -> None:
    """Copy `source` to `target` where they differ, reduce, divide; both are contiguous."""
    pieces = _pieces(target)
    under_way: deque[tuple[Any, Any]] = deque()

    def finish() -> None:
        work, part = under_way.popleft()
        work.wait()
        if divisor > 1:
            part.div_(divisor)

    whence, where = source.view(-1), target.view(-1)
    for piece in pieces:
        part = where[piece]
        if source is not target:
            part.copy_(whence[piece])
        under_way.append((distributed.all_reduce(part, op=op, async_op=True), part))
        if len(under_way) == _UNDER_WAY:
            finish()
    while under_way:
        finish()


def _pieces(tensor: Any) -> list[slice]:
    """By size and kind of device alone, so that all ranks come to the same ones. A GPU's tensor stays whole."""
    length: int = tensor.numel()
    most = max(1, PIECE // tensor.element_size()) if tensor.device.type == "cpu" else max(1, length)
    return [slice(at, at + most) for at in range(0, length, most)] or [slice(0, 0)]


def _room_for(torch: Any, tensor: Any) -> Any:
    """A tensor like this one, with nothing in it yet."""
    room = torch.empty_like(tensor, memory_format=torch.contiguous_format)
    size = room.numel() * room.element_size()
    if room.device.type == "cpu" and size >= _OWN_PAGES:
        begin = -(-room.data_ptr() // _HUGE_PAGE) * _HUGE_PAGE
        end = (room.data_ptr() + size) // _HUGE_PAGE * _HUGE_PAGE
        with contextlib.suppress(OSError, AttributeError):  # advice: where nobody takes it, pages are small
            ctypes.CDLL(None).madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), _MADV_HUGEPAGE)
    return room
