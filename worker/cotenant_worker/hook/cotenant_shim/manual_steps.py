"""Counts the steps of torch programs without an optimizer, which change their parameters after each backward pass."""

from __future__ import annotations

import contextlib
import functools

from .isolated_ranks import is_isolated, warn_isolated
from .steps import MANUAL, step_counter

MIN_PASSES = 8
"""Backward passes after which no optimizer is expected any more. Programs may sum gradients over some passes."""


class BackwardPasses:
    """The backward passes of this process, counted as steps."""

    def __init__(self):
        self._made = 0

    def add(self):
        """Count one pass. True at the step by which ranks are synchronized."""
        if step_counter.source not in (None, MANUAL):
            return False
        self._made += 1
        if self._made < MIN_PASSES:
            return False
        return step_counter.add(MANUAL, 1 if step_counter.source == MANUAL else self._made)


backward_passes = BackwardPasses()


def after_tensor(module):
    original = module.Tensor.backward

    @functools.wraps(original)
    def backward(self, *args, **kwargs):
        result = original(self, *args, **kwargs)
        with contextlib.suppress(Exception):
            if backward_passes.add() and is_isolated():
                warn_isolated()
        return result

    module.Tensor.backward = backward
