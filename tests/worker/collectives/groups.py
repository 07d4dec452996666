"""Gloo groups of threads on loopback, for the tests of collectives."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from cotenant_worker.collectives.gloo_group import GlooGroup, form_group
from cotenant_worker.supervision.conductor import free_ports


def in_group(size: int, work: Callable[[GlooGroup], Any]) -> list[Any]:
    """What `work` returns on every rank of a fresh group."""
    address = f"127.0.0.1:{free_ports('127.0.0.1', 1)[0]}"

    def rank(number: int) -> Any:
        group = form_group(number, size, address)
        try:
            return work(group)
        finally:
            group.close()

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(rank, range(size)))
