"""Choosing the GPUs of each worker on a chosen node: NVLink peers together, then by the scorer's preference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cotenant.core.placement.fit_cache import FitCache
from cotenant.core.placement.fitting import shares_per_gpu
from cotenant.core.placement.gang_request import NodeAssignment, PlacementRequest, fit_of
from cotenant.core.placement.nvlink import peers_first
from cotenant.core.placement.scoring import LOWEST


def assign(
    fit_cache: FitCache, request: PlacementRequest, spread: Sequence[tuple[int, int]]
) -> tuple[NodeAssignment, ...]:
    """GPUs for each (row, workers on it)."""
    return tuple((row, _gpus_on(fit_cache, request, row, workers)) for row, workers in spread)


def _gpus_on(fit_cache: FitCache, request: PlacementRequest, row: int, workers: int) -> tuple[tuple[int, ...], ...]:
    """GPUs of each worker: NVLink peers together, then by the scorer's preference, suspect ones last."""
    inventory, count = fit_cache.ledger.inventory, request.shape.count
    scores = fit_of(fit_cache, request, workers).gpu_scores(row)
    if workers * count == 1 and not inventory.suspects and not request.excluded:
        return ((int(scores.argmax()),),)
    wanted = scores.tolist()
    columns = [one for one, score in enumerate(wanted) if score != LOWEST and (row, one) not in request.excluded]
    columns.sort(key=lambda column: ((row, column) in inventory.suspects, -wanted[column], column))
    if not request.distinct and not request.shape.whole:
        shares = shares_per_gpu(fit_cache.ledger, request.shape, np.array([row]))[0]
        if count > 1:
            return _stacked(columns, [int(shares[column]) for column in columns], workers, count)
        columns = [column for column in columns for _ in range(int(shares[column]))]
    elif workers * count > 1 and inventory.linked:
        columns = peers_first(inventory.nvlink_group[row].tolist(), columns, workers, count)
    return tuple(tuple(columns[worker * count : (worker + 1) * count]) for worker in range(workers))


def _stacked(columns: list[int], shares: list[int], workers: int, count: int) -> tuple[tuple[int, ...], ...]:
    """Different GPUs for each worker; one GPU may serve several workers. Each worker gets the GPUs that can take most
    further shares, so that as many workers as possible find a place. `shares`: parallel to `columns`."""
    left = [min(share, workers) for share in shares]
    found = []
    for _ in range(workers):
        chosen = sorted(range(len(columns)), key=lambda place: (-left[place], place))[:count]
        for place in chosen:
            left[place] -= 1
        found.append(tuple(columns[place] for place in chosen))
    return tuple(found)
