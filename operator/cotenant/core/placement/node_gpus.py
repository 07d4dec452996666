"""Choosing the GPUs of each worker on a chosen node: NVLink peers together, then by the scorer's preference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cotenant.core.placement.fit_cache import FitCache
from cotenant.core.placement.fitting import shares_per_gpu
from cotenant.core.placement.gang_request import NodeAssignment, PlacementRequest
from cotenant.core.placement.nvlink import peers_first
from cotenant.core.placement.shape_fit import ShapeFit


def assign(
    fit_cache: FitCache, request: PlacementRequest, spread: Sequence[tuple[int, int]]
) -> tuple[NodeAssignment, ...]:
    """GPUs for each (row, workers on it). Workers of one node are scored as one merged shape."""
    single = fit_cache.shape_fit(request.shape, request.tenancy, distinct=request.distinct)
    fits = {1: single}
    for workers in {workers for _, workers in spread} - {1}:
        merged = request.distinct or request.shape.whole
        fits[workers] = (
            fit_cache.shape_fit(request.shape.times(workers), request.tenancy, distinct=request.distinct)
            if merged
            else single
        )
    return tuple(_assign_node(fit_cache, request, (single, fits[workers]), row, workers) for row, workers in spread)


def _assign_node(
    fit_cache: FitCache, request: PlacementRequest, fits: tuple[ShapeFit, ShapeFit], row: int, workers: int
) -> NodeAssignment:
    """GPUs of one node for `workers` of the gang: NVLink peers together, then by the scorer's preference. `fits`: of
    one worker, and of so many."""
    single, together = fits
    wanted = together.gpu_scores(row).tolist()
    columns = [column for column in np.flatnonzero(single.fits(row)).tolist() if (row, column) not in request.excluded]
    suspects = fit_cache.ledger.inventory.suspects
    columns.sort(key=lambda column: ((row, column) in suspects, -wanted[column], column))
    count = request.shape.count
    if not request.distinct and not request.shape.whole:
        shares = shares_per_gpu(fit_cache.ledger, request.shape, np.array([row]))[0]
        if count > 1:
            return row, _stacked(columns, [int(shares[column]) for column in columns], workers, count)
        columns = [column for column in columns for _ in range(int(shares[column]))]
    elif workers * count > 1 and fit_cache.ledger.inventory.linked:
        columns = peers_first(fit_cache.ledger.inventory.nvlink_group[row].tolist(), columns, workers, count)
    return row, tuple(tuple(columns[worker * count : (worker + 1) * count]) for worker in range(workers))


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
