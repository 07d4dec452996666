"""Rings of threads on loopback, for the tests of collectives."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from cotenant_worker.collectives.ring import Ring
from cotenant_worker.collectives.ring_rendezvous import form_ring
from cotenant_worker.supervision.conductor import free_ports


def on_ring(size: int, work: Callable[[Ring], Any]) -> list[Any]:
    """What `work` returns on every rank of a fresh ring."""
    address = f"127.0.0.1:{free_ports('127.0.0.1', 1)[0]}"

    def rank(number: int) -> Any:
        ring = form_ring(number, size, address, "secret")
        try:
            return work(ring)
        finally:
            ring.close()

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(rank, range(size)))
