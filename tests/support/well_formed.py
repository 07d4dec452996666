"""A document that must have passed the door."""

from __future__ import annotations

from typing import TypeVar

from cotenant.contract.decoding.bounded_json import Malformed

T = TypeVar("T")


def well_formed(found: T | Malformed) -> T:
    assert not isinstance(found, Malformed), found
    return found
