"""Frozen values of the core as JSON and back, by their type hints. Nothing is lost, and equal values give equal text.

Dataclasses become objects with camelCase names, sets become sorted lists, infinity becomes a text. Fields that do not
take part in comparison follow from the others and are left out.
"""

from __future__ import annotations

import json
import math
import types
from collections.abc import Callable, Hashable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Final, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")
_Decode = Callable[[Any], Any]
_EXACT: Final = 1 << 53


class CodecError(ValueError):
    """The data do not fit the type. The message names the field."""


def canonical(value: object) -> str:
    """One line without blanks, equal for equal values."""
    return json.dumps(encode(value), separators=(",", ":"), sort_keys=True, ensure_ascii=False, allow_nan=False)


def encode(value: Any) -> Any:
    """The value as JSON types. Raises TypeError for a value that is not of the core."""
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return _number(float(value))
    if isinstance(value, tuple | list):
        return [encode(one) for one in value]
    if isinstance(value, AbstractSet):
        return sorted(encode(one) for one in value)
    if isinstance(value, Mapping):
        return {str(key): encode(one) for key, one in sorted(value.items())}
    if is_dataclass(value) and not isinstance(value, type):
        return {name: encode(getattr(value, field)) for field, name in _names(value.__class__)}
    raise TypeError(f"{type(value).__name__} is no value of the decision log")


def _number(value: float) -> int | float | str:
    """Whole numbers as integers: `2` and `2.0` are equal, and fields for times contain both."""
    if not math.isfinite(value):
        return repr(value)
    return int(value) if value.is_integer() and abs(value) < _EXACT else value


def decode(kind: type[T], data: Any) -> T:
    """The value of this type. Unknown fields are ignored; missing ones take their defaults. Raises CodecError."""
    decoded: T = _decoder(cast(Hashable, kind))(data)
    return decoded


@cache
def _names(kind: Any) -> tuple[tuple[str, str], ...]:
    return tuple((one.name, camel(one.name)) for one in fields(kind) if one.compare)


def camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)


@cache
def _decoder(kind: Any) -> _Decode:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _optional(arguments)
    if origin is tuple:
        return _tuple(arguments)
    if origin is frozenset:
        each = _decoder(arguments[0])
        return lambda data: frozenset(each(one) for one in _checked(data, list))
    if origin is not None and issubclass(origin, Mapping):
        each = _decoder(arguments[1])
        return lambda data: {key: each(one) for key, one in _checked(data, dict).items()}
    if is_dataclass(kind):
        return _dataclass(kind)
    if issubclass(kind, Enum):
        return lambda data: _called(kind, data)
    if kind is float:
        return lambda data: _called(float, data)
    return lambda data: _checked(data, kind)


def _optional(arguments: tuple[Any, ...]) -> _Decode:
    """`X | None`, or a union of plain types."""
    others = [one for one in arguments if one is not type(None)]
    if len(others) > 1:
        return lambda data: _checked(data, tuple(others))
    each = _decoder(others[0])
    return lambda data: None if data is None else each(data)


def _tuple(arguments: tuple[Any, ...]) -> _Decode:
    if arguments[1:] == (Ellipsis,):
        each = _decoder(arguments[0])
        return lambda data: tuple([each(one) for one in _checked(data, list)])
    of_each = [_decoder(one) for one in arguments]

    def decode_row(data: Any) -> tuple[Any, ...]:
        if len(_checked(data, list)) != len(of_each):
            raise CodecError(f"has {len(data)} values, not {len(of_each)}")
        return tuple(one(value) for one, value in zip(of_each, data, strict=True))

    return decode_row


def _dataclass(kind: Any) -> _Decode:
    hints = get_type_hints(kind)
    own = [(one.name, camel(one.name), _has_default(one)) for one in fields(kind) if one.compare]

    def decode_object(data: Any) -> Any:
        found = {}
        for field, name, optional in own:
            if name in _checked(data, dict):
                try:
                    found[field] = _decoder(hints[field])(data[name])
                except CodecError as error:
                    raise CodecError(f"{name}: {error}") from None
            elif not optional:
                raise CodecError(f"{name} is missing")
        return kind(**found)

    return decode_object


def _has_default(field: Any) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _checked(data: Any, kind: Any) -> Any:
    if not isinstance(data, kind) or (kind is int and isinstance(data, bool)):
        raise CodecError(f"{type(data).__name__} does not fit here")
    return data


def _called(kind: Callable[[Any], Any], data: Any) -> Any:
    try:
        return kind(data)
    except (TypeError, ValueError) as error:
        raise CodecError(str(error)) from None
