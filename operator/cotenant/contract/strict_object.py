"""One object of a contract, read strictly: a field that is missing, unknown or of another kind refuses all of it.

Only the operator of this version writes such a document. A document that differs was made by others.
"""

from __future__ import annotations

import re
from typing import Any, Final

from cotenant import names
from cotenant.contract.decoding.fields import INTEGER_MAX, is_whole
from cotenant.contract.decoding.plain_text import is_printable_ascii, plain_text, shown_value

_UUID_CHARS_MAX: Final = 128
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_ABSENT: Final = object()


class ContractError(ValueError):
    """The document is not a contract of this version. The message names the field."""


class StrictObject:
    """The document, or an object in it at `name` (and `index`) of its `parent`. Each reader raises ContractError."""

    __slots__ = ("_index", "_name", "_parent", "_raw")

    def __init__(self, raw: Any, name: str = "", index: int = -1, parent: StrictObject | None = None) -> None:
        self._raw = raw
        self._name = name
        self._index = index
        self._parent = parent
        if not isinstance(raw, dict):
            raise ContractError(f"{names.ENV_CONTRACT}: {self._path()} is not an object")

    def has(self, name: str) -> bool:
        return self._raw.get(name) is not None

    def only(self, known: frozenset[str]) -> None:
        """Refuse fields of other names."""
        if not self._raw.keys() <= known:
            name = min(self._raw.keys() - known)
            raise ContractError(
                f"{names.ENV_CONTRACT}: unexpected keyword argument '{plain_text(name, 64)}'{self._place()}"
            )

    def whole(self, name: str, default: int | None = None, *, most: int = INTEGER_MAX) -> int:
        value = self._get(name, default)
        if not is_whole(value, 0, most):
            raise self._wrong(name, value, f"a whole number from 0 to {most}")
        return int(value)

    def flag(self, name: str, default: bool | None = None) -> bool:
        value = self._get(name, default)
        if not isinstance(value, bool):
            raise self._wrong(name, value, "true or false")
        return value

    def text(self, name: str, default: str | None = None) -> str:
        value = self._get(name, default)
        if not _is_text(value):
            raise self._wrong(name, value, "a text")
        return str(value)

    def uuid(self, name: str) -> str:
        value = self._get(name, None)
        if not isinstance(value, str) or not is_printable_ascii(value, _UUID_CHARS_MAX):
            raise self._wrong(name, value, "the UUID of a GPU")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Empty where it is absent."""
        value = self._get(name, [])
        if not isinstance(value, list) or not all(map(_is_text, value)):
            raise self._wrong(name, value, "a list of texts")
        return tuple(value)

    def objects(self, name: str) -> tuple[StrictObject, ...]:
        value = self._get(name, None)
        if not isinstance(value, list):
            raise self._wrong(name, value, "a list of objects")
        return tuple(StrictObject(each, name, index, self) for index, each in enumerate(value))

    def object(self, name: str) -> StrictObject:
        return StrictObject(self._get(name, None), name, parent=self)

    def mapping(self, name: str) -> dict[str, Any]:
        """Mapping as it is; empty where it is absent."""
        value = self._get(name, {})
        if not isinstance(value, dict):
            raise self._wrong(name, value, "an object")
        return value

    def _get(self, name: str, default: Any) -> Any:
        value = self._raw.get(name, _ABSENT)
        if value is not _ABSENT:
            return value
        if default is None:
            raise ContractError(f"{names.ENV_CONTRACT}: '{name}'{self._place()} is missing")
        return default

    def _wrong(self, name: str, value: Any, wanted: str) -> ContractError:
        return ContractError(
            f"{names.ENV_CONTRACT}: '{name}'{self._place()} must be {wanted}, not {shown_value(value)}"
        )

    def _place(self) -> str:
        return f" of {self._path()}" if self._name else ""

    def _path(self) -> str:
        """`pods[0].ranks[1]`. It is built only when needed, because there may be ten thousand objects."""
        before = f"{self._parent._path()}." if self._parent and self._parent._name else ""
        return f"{before}{self._name}[{self._index}]" if self._index >= 0 else f"{before}{self._name}"


def _is_text(value: Any) -> bool:
    """True for text that is valid in UTF-8. The operator never writes half of a surrogate pair."""
    return isinstance(value, str) and (value.isascii() or value.isprintable() or not _SURROGATE.search(value))
