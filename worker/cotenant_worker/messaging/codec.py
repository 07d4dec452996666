"""Converts frozen dataclasses to JSON objects and back, strictly. The field `op` names the class. Pure.

A `MessageError` names the field that does not fit: an unknown `op`, an unknown or missing field, a value of another
type. JSON has one kind of number, so an integer is accepted for a float. Lists become tuples, and keys of a `dict[int,
…]` become integers again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

M = TypeVar("M")
Convert = Callable[[Any, str], Any]
"""(value from JSON, path of the field) → value of the field's type."""


class MessageError(ValueError):
    """A message that is not understood. The text names the field."""


class Codec(Generic[M]):
    """Encodes and decodes the messages of one protocol: `op` → dataclass."""

    def __init__(self, types: Mapping[str, type[M]]) -> None:
        self.types = dict(types)
        self._ops: dict[type, str] = {kind: op for op, kind in types.items()}
        self._builders: dict[str, Convert] = {}
        """`op` → its `_record`, made when the first such message comes, because resolving type hints takes time."""

    def encode(self, message: M) -> bytes:
        """One line, with its end."""
        return json.dumps(self._plain(message), separators=(",", ":")).encode() + b"\n"

    def decode(self, line: bytes) -> M:
        """Raises MessageError if the line is no message of this protocol."""
        try:
            raw = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise MessageError(f"not JSON: {error}") from None
        try:
            found: M = self._message(raw, "")
        except RecursionError as error:  # where what is refused is shown
            raise MessageError(f"nested too deeply: {error}") from None
        return found

    def _plain(self, value: Any) -> Any:
        if not is_dataclass(value) or isinstance(value, type):
            return [self._plain(each) for each in value] if isinstance(value, tuple) else value
        plain = {each.name: self._plain(getattr(value, each.name)) for each in fields(value)}
        op = self._ops.get(type(value))
        return plain if op is None else {"op": op, **plain}

    def _message(self, raw: Any, where: str) -> Any:
        op = raw.get("op") if isinstance(raw, dict) else None
        if not isinstance(op, str) or (kind := self.types.get(op)) is None:
            raise MessageError(f"{where or 'message'}: unknown op {op!r}")
        build = self._builders.get(op)
        if build is None:
            build = self._builders[op] = self._record(kind)
        return build({name: value for name, value in raw.items() if name != "op"}, op)

    def _record(self, kind: type) -> Convert:
        hints = get_type_hints(kind)
        converts = {each.name: self._converter(hints[each.name]) for each in fields(kind)}
        required = {each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING}

        def convert(raw: Any, where: str) -> Any:
            if not isinstance(raw, dict):
                raise MessageError(f"{where}: {raw!r} is not an object")
            if unknown := raw.keys() - converts.keys():
                raise MessageError(f"{where}: unknown field {_printable(sorted(unknown)[0])}")
            if missing := required - raw.keys():
                raise MessageError(f"{where}: field {sorted(missing)[0]} is missing")
            return kind(**{name: converts[name](value, f"{where}.{name}") for name, value in raw.items()})

        return convert

    def _converter(self, hint: Any) -> Convert:
        origin, arguments = get_origin(hint), get_args(hint)
        if origin in (Union, UnionType):
            return self._union(arguments)
        if origin is tuple:
            return _items(self._converter(arguments[0]))
        if origin is dict:
            return _entries(arguments[0], self._converter(arguments[1]))
        if origin is Literal:
            return _one_of(arguments)
        if is_dataclass(hint) and isinstance(hint, type):
            return self._message_of((hint,)) if hint in self._ops else self._record(hint)
        return _scalar(hint)

    def _union(self, arguments: tuple[Any, ...]) -> Convert:
        kinds = tuple(each for each in arguments if each is not NoneType)
        if all(each in self._ops for each in kinds):
            return self._message_of(kinds)
        last = self._converter(kinds[-1])  # where there are several, all are scalars

        def convert(raw: Any, where: str) -> Any:
            if (raw is None and NoneType in arguments) or type(raw) in kinds:
                return raw
            return last(raw, where)

        return convert

    def _message_of(self, kinds: tuple[type, ...]) -> Convert:
        def convert(raw: Any, where: str) -> Any:
            message = self._message(raw, where)
            if not isinstance(message, kinds):
                raise MessageError(f"{where}: op {raw['op']!r} does not belong here")
            return message

        return convert


@cache
def _scalar(hint: Any) -> Convert:
    kinds = (int, float, bool) if hint is float else (hint,)

    def convert(raw: Any, where: str) -> Any:
        if type(raw) not in kinds:
            raise MessageError(f"{where}: {raw!r} is not {hint.__name__}")
        try:
            return float(raw) if hint is float else raw
        except OverflowError:
            raise MessageError(f"{where}: an integer of {raw.bit_length()} bits is too large") from None

    return convert


def _printable(name: str) -> str:
    """A foreign name with surrogates and line breaks escaped, for a log."""
    return name.encode("unicode_escape").decode()


def _one_of(values: tuple[Any, ...]) -> Convert:
    def convert(raw: Any, where: str) -> Any:
        if raw not in values:
            raise MessageError(f"{where}: {raw!r} is not one of {', '.join(map(str, values))}")
        return raw

    return convert


def _items(convert_item: Convert) -> Convert:
    def convert(raw: Any, where: str) -> Any:
        if not isinstance(raw, list):
            raise MessageError(f"{where}: {raw!r} is not a list")
        return tuple(convert_item(each, where) for each in raw)

    return convert


def _entries(key: Any, convert_value: Convert) -> Convert:
    def convert(raw: Any, where: str) -> Any:
        if not isinstance(raw, dict):
            raise MessageError(f"{where}: {raw!r} is not an object")
        try:
            return {key(name): convert_value(value, where) for name, value in raw.items()}
        except ValueError as error:
            raise error if isinstance(error, MessageError) else MessageError(f"{where}: {error}") from None

    return convert
