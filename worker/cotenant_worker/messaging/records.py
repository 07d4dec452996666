"""Frozen dataclasses that are cheap to define, because process 1 defines some fifty before the first rank starts.

`dataclass(frozen=True, slots=True)` compiles six methods for each class, which takes four times as long as the one that
sets the fields. Here all classes share the five others. A field can be set once.
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, field
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(kind: type[T]) -> type[T]:
    """Decorates a class as `dataclass(frozen=True, slots=True)` does. Records are equal if class and fields are."""
    made = dataclass(eq=False, repr=False, slots=True)(kind)
    for name in ("__eq__", "__hash__", "__repr__", "__setattr__", "__delattr__"):
        setattr(made, name, vars(_Frozen)[name])
    return made


class _Frozen:
    """The methods that all records share."""

    __match_args__: tuple[str, ...]

    def __eq__(self, other: object) -> bool:
        return _values(self) == _values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self) -> int:
        return hash(_values(self))

    def __repr__(self) -> str:
        shown = (f"{name}={value!r}" for name, value in zip(self.__match_args__, _values(self), strict=True))
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def __setattr__(self, name: str, value: Any) -> None:
        if hasattr(self, name):
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")


def _values(of: Any) -> tuple[Any, ...]:
    return tuple(getattr(of, name) for name in of.__match_args__)
