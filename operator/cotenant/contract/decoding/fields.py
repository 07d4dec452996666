"""Fields of one foreign object, each read by its kind and range. What does not fit is left out, and noted.

If a process gets one field wrong, the other fields still count. So an image of another version, or a program that
reports an odd number, loses that field only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from cotenant.contract.decoding.plain_text import is_word, plain_text, shown_value

INTEGER_MAX: Final = 2**53 - 1
"""The largest whole number that every JSON reader keeps exactly."""
NOTES_MAX: Final = 8
NOTE_CHARS_MAX: Final = 400
_NAME_CHARS_MAX: Final = 64


def is_whole(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def is_number(value: Any, least: float, most: float) -> bool:
    """Finite, and within the range."""
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most


class Fields:
    """Reader of one object. `notes` has a sentence for each field that was left out, as many as `NOTES_MAX`."""

    def __init__(self, raw: Mapping[str, Any], where: str) -> None:
        self._raw = raw
        self._where = where
        self.notes: list[str] = []

    def whole(self, name: str, default: int, most: int = INTEGER_MAX, *, least: int = 0) -> int:
        found = self.whole_or_none(name, most, least=least)
        return default if found is None else found

    def whole_or_none(self, name: str, most: int = INTEGER_MAX, *, least: int = 0) -> int | None:
        value = self._raw.get(name)
        if value is None or is_whole(value, least, most):
            return value
        self.note(name, value, f"a whole number from {least} to {most}")
        return None

    def flag_or_none(self, name: str) -> bool | None:
        value = self._raw.get(name)
        if value is None or isinstance(value, bool):
            return value
        self.note(name, value, "true or false")
        return None

    def number(self, name: str, most: float) -> float:
        """A number from 0 to `most`; 0 where it is absent."""
        return self.number_or_none(name, most) or 0.0

    def number_or_none(self, name: str, most: float) -> float | None:
        value = self._raw.get(name)
        if value is None or is_number(value, 0, most):
            return None if value is None else float(value)
        self.note(name, value, f"a number from 0 to {most:.10g}")
        return None

    def text(self, name: str, chars_max: int, *, lines: bool = False) -> str:
        value = self._raw.get(name)
        if value is None or isinstance(value, str):
            return plain_text(value or "", chars_max, lines=lines)
        self.note(name, value, "a text")
        return ""

    def word(self, name: str, default: str, chars_max: int = 64) -> str:
        """A reason or a state: letters and digits."""
        value = self._raw.get(name)
        if value is None or value == "":
            return default
        if isinstance(value, str) and is_word(value, chars_max):
            return value
        self.note(name, value, f"one word of at most {chars_max} letters and digits")
        return default

    def texts(self, name: str, count_max: int, chars_max: int) -> tuple[str, ...]:
        """The last `count_max` of a list of texts."""
        value = self._raw.get(name)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            self.note(name, value, "a list of texts")
            return ()
        return tuple(plain_text(each, chars_max) for each in value[-count_max:])

    def entries(self, name: str) -> Iterator[tuple[str, Any]]:
        """Entries of an object, as they are."""
        value = self._raw.get(name)
        if isinstance(value, dict):
            yield from value.items()
        elif value is not None:
            self.note(name, value, "an object")

    def note(self, name: str, value: Any, wanted: str) -> None:
        """Remember that a field was left out."""
        self.remark(
            f"{self._where}.{plain_text(name, _NAME_CHARS_MAX)} was left out: {shown_value(value)} is not {wanted}"
        )

    def remark(self, text: str) -> None:
        if len(self.notes) < NOTES_MAX:
            self.notes.append(plain_text(text, NOTE_CHARS_MAX))

    def remarks(self, texts: Iterable[str]) -> None:
        for text in texts:
            self.remark(text)
