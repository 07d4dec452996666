"""A shape that only some rows may serve, by the class of their GPUs; there as the shape without classes.

All class options of a request share what is judged once where no node mixes kinds of GPUs.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from cotenant.core.gpus.inventory import BoolArray, IntArray
from cotenant.core.placement.room_scores import LOWEST
from cotenant.core.placement.shape_fit import ShapeFit


class ClassFit:
    """A shape that only some rows may serve, by the class of their GPUs. Elsewhere as the shape without classes."""

    __slots__ = ("_fit", "_serves")

    def __init__(self, fit: ShapeFit, serves: BoolArray) -> None:
        self._fit, self._serves = fit, serves

    @property
    def capacity(self) -> IntArray:
        return np.where(self._serves, self._fit.capacity, 0)

    @property
    def node_scores(self) -> IntArray:
        return np.where(self._serves, self._fit.node_scores, LOWEST)

    @property
    def seen(self) -> int:
        return self._fit.seen

    def best_gpu(self, row: int) -> int:
        return self._fit.best_gpu(row)

    def fits(self, row: int) -> BoolArray:
        found: BoolArray = self._fit.fits(row) & self._serves[row]
        return found

    def all_fits(self) -> BoolArray:
        return self._fit.all_fits() & self._serves[:, None]

    def gpu_scores(self, row: int) -> IntArray:
        return self._fit.gpu_scores(row)

    def node_score(self, row: int) -> int:
        return self._fit.node_score(row) if self._serves[row] else LOWEST


AnyFit: TypeAlias = ShapeFit | ClassFit
