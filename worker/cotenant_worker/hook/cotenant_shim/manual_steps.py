"""Steps of torch programs that have no optimizer: they change their parameters by hand after each backward pass."""

from __future__ import annotations

import contextlib
import functools

from .isolated_ranks import is_alone, warn_alone
from .steps import BY_HAND, steps

FIRST = 8
"""Passes before it is believed that no optimizer comes: gradients may be summed up over some of them."""


class Passes:
    """Of this process."""

    def __init__(self):
        self._made = 0

    def one_more(self):
        """Whether it is the step by which ranks have met."""
        if steps.source not in (None, BY_HAND):
            return False
        self._made += 1
        if self._made < FIRST:
            return False
        return steps.made(BY_HAND, 1 if steps.source == BY_HAND else self._made)


passes = Passes()


def after_tensor(module):
    original = module.Tensor.backward

    @functools.wraps(original)
    def backward(self, *args, **kwargs):
        result = original(self, *args, **kwargs)
        with contextlib.suppress(Exception):
            if passes.one_more() and is_alone():
                warn_alone()
        return result

    module.Tensor.backward = backward
