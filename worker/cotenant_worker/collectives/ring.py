"""A ring of ranks over TCP, without any framework: what travels round it, and how it is reduced on the way.

Why not gloo, which torch brings: it comes with torch only. Programs on JAX, TensorFlow or numpy would import torch for
it, 1.9 s of CPU and a few hundred MiB per rank, where the ring and numpy take 0.15 s. Speed is a reason only where the
ranks have cores to themselves: in place, over 4 KiB to 256 MiB, two ranks on two cores had 2.6 times gloo's speed in
the one run with nothing beside it, and 0.7 times with some 25 processes in line for the cores
(`bench/worker/allreduce.py`; docs/worker.md has the conditions).

Large arrays: reduce-scatter, then all-gather, each rank sending 2·(n-1)/n of the data, in pieces that go on to the
right as soon as they are reduced. Small ones (latency counts, not bytes): every array goes round whole and every
rank reduces them in rank order. Either way all ranks end with the same bits. numpy only where arrays
travel.
"""

from __future__ import annotations

import hashlib
import struct
from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from cotenant_worker.collectives.duplex_socket import DuplexSocket

if TYPE_CHECKING:
    from numpy.typing import NDArray

Op = Literal["sum", "mean", "max", "min", "prod"]
_LENGTH = struct.Struct("<Q")
_HEADER_BYTES = 256
"""Of what every call begins with: the operation, type and shape at this rank."""
_SMALL_BYTES = 32 << 10
_PIECE_BYTES = 512 << 10
"""Bytes reduced at a time: they are still in the cache when they are sent on."""


class Ring:
    """The collectives of one rank; all ranks call the same ones in the same order."""

    def __init__(self, duplex: DuplexSocket) -> None:
        self.duplex = duplex
        self.rank = duplex.rank
        self.size = duplex.size
        self.entered = 0
        """Collectives that this rank has entered."""
        self._scratch = bytearray(_PIECE_BYTES)

    def close(self) -> None:
        self.duplex.close()

    def all_gather(self, mine: bytes) -> list[bytes]:
        """The bytes of all ranks, of any lengths, in rank order."""
        self.entered += 1
        parts = [b""] * self.size
        parts[self.rank] = mine
        head = _header("all_gather")
        sends = deque(
            part for part in (memoryview(head), memoryview(_LENGTH.pack(len(mine))), memoryview(mine)) if part
        )

        def incoming() -> Iterator[memoryview]:
            yield from self._check_header(head)
            for step in range(1, self.size):
                length = bytearray(_LENGTH.size)
                yield memoryview(length)
                data = bytearray(_LENGTH.unpack(length)[0])
                yield memoryview(data)
                parts[(self.rank - step) % self.size] = bytes(data)
                if step < self.size - 1:
                    sends.extend(part for part in (memoryview(length), memoryview(data)) if part)

        self.duplex.transfer(sends, incoming())
        return parts

    def all_reduce(self, array: NDArray[Any], op: Op, *, in_place: bool = False) -> NDArray[Any]:
        """`array` must be contiguous. ValueError when a neighbour brings another shape, type or operation."""
        import numpy as np

        self.entered += 1
        result = array if in_place else np.empty_like(array)
        head = _header(f"{op} of {array.dtype.str} {list(array.shape)}")
        if array.nbytes <= _SMALL_BYTES:
            self._reduce_small(head, array.reshape(-1), result.reshape(-1), op)
        else:
            self._reduce_large(head, array.reshape(-1), result.reshape(-1), op)
        if op != "mean":
            return result
        if result.dtype.kind not in "fc":
            return np.asarray(result / self.size)
        result /= self.size
        return result

    def _reduce_small(self, head: bytes, source: NDArray[Any], result: NDArray[Any], op: Op) -> None:
        import numpy as np

        parts = np.empty((self.size, source.size), dtype=source.dtype)
        parts[self.rank] = source
        sends = deque((memoryview(head + source.tobytes()),))

        def incoming() -> Iterator[memoryview]:
            yield from self._check_header(head)
            for step in range(1, self.size):
                part = _bytes(parts[(self.rank - step) % self.size])
                yield part
                if part and step < self.size - 1:
                    sends.append(part)

        self.duplex.transfer(sends, incoming())
        _ufunc(op).reduce(parts, axis=0, dtype=source.dtype, out=result)

    def _reduce_large(self, head: bytes, source: NDArray[Any], result: NDArray[Any], op: Op) -> None:
        import numpy as np

        # The header alone first: a rank that finds a disagreement must not leave others in the middle of their data.
        self.duplex.transfer(deque((memoryview(head),)), self._check_header(head))
        pieces = _pieces(source.size, source.itemsize, self.size)
        scratch = np.frombuffer(self._scratch, dtype=source.dtype, count=_PIECE_BYTES // source.itemsize)
        combine = _ufunc(op)
        sends = deque(_bytes(source[piece]) for piece in pieces[self.rank])

        def incoming() -> Iterator[memoryview]:
            for step in range(self.size - 1):
                for piece in pieces[(self.rank - step - 1) % self.size]:
                    part = scratch[: piece.stop - piece.start]
                    yield _bytes(part)
                    combine(source[piece], part, out=result[piece])
                    sends.append(_bytes(result[piece]))
            for step in range(self.size - 1):
                for piece in pieces[(self.rank - step) % self.size]:
                    yield _bytes(result[piece])
                    if step < self.size - 2:
                        sends.append(_bytes(result[piece]))

        self.duplex.transfer(sends, incoming())

    def _check_header(self, mine: bytes) -> Iterator[memoryview]:
        """Receive the header of the left-hand neighbour; ValueError, and the end of this ring, if it differs."""
        theirs = bytearray(_HEADER_BYTES)
        yield memoryview(theirs)
        if theirs != mine:
            self.close()
            raise ValueError(
                f"all_reduce: ranks disagree: rank {self.rank} does {_header_text(mine)},"
                f" rank {self.duplex.left_rank} does {_header_text(theirs)}"
            )


def _header(doing: str) -> bytes:
    """A text of fixed length; the digest makes long ones differ that begin alike."""
    text = doing.encode()
    return hashlib.blake2b(text, digest_size=16).digest() + text[: _HEADER_BYTES - 16].ljust(_HEADER_BYTES - 16)


def _header_text(head: bytes | bytearray) -> str:
    return head[16:].decode(errors="replace").strip()


def _pieces(length: int, itemsize: int, size: int) -> list[list[slice]]:
    """One chunk per rank, each cut into pieces of at most _PIECE bytes."""
    bounds = [length * rank // size for rank in range(size + 1)]
    most = max(1, _PIECE_BYTES // itemsize)
    return [[slice(at, min(at + most, stop)) for at in range(start, stop, most)] for start, stop in pairwise(bounds)]


def _ufunc(op: Op) -> Any:
    import numpy as np

    return {"sum": np.add, "mean": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply}[op]


def _bytes(array: NDArray[Any]) -> memoryview:
    import numpy as np

    return array.view(np.uint8).data if array.size else memoryview(b"")
