"""The exception that ends a fault run."""

from __future__ import annotations


class InvariantViolationError(Exception):
    """An invariant did not hold; the message says which, with the logs where that helps."""
