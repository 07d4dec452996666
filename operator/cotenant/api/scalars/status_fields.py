"""Parts of a status that are bounded where they are written, so that a status never outgrows etcd.

A longer text is cut, of a longer list the first or the last are kept, and the CRD has the same bounds. Reading checks
none of them: a status that an older operator wrote is one that holds GPUs.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Annotated, Any, Final, TypeAlias

from pydantic import Field, PlainSerializer, SerializerFunctionWrapHandler, WithJsonSchema, WrapSerializer
from pydantic.config import JsonDict


def cut(text: str, longest: int) -> str:
    """The text, or as much of its beginning as fits before an ellipsis."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def cut_at(longest: int) -> Any:
    """Metadata of a text of which so many characters are written."""
    schema = WithJsonSchema({"type": "string", "maxLength": longest})
    return PlainSerializer(partial(cut, longest=longest), return_type=str), schema


def at_most(most: int, *, last: bool = False) -> Any:
    """Metadata of a list of which so many items are written."""

    def some(value: tuple[Any, ...], write: SerializerFunctionWrapHandler) -> Any:
        return write(value[-most:] if last else value[:most])

    return WrapSerializer(some), Field(json_schema_extra={"maxItems": most})


def entries(most: int) -> Any:
    """Metadata of a mapping of which so many entries are written."""

    def some(value: dict[Any, Any], write: SerializerFunctionWrapHandler) -> Any:
        return write(dict(islice(value.items(), most)))

    return WrapSerializer(some), Field(json_schema_extra={"maxProperties": most})


def lines_within(most: int, chars: int) -> Any:
    """Metadata of a list of lines of which the last are written, so many and with so many characters together."""

    def some(value: tuple[str, ...]) -> list[str]:
        kept: list[str] = []
        room = chars
        for line in reversed(value[-most:]):
            room -= len(line)
            if room < 0:
                break
            kept.append(line)
        return kept[::-1]

    items: JsonDict = {"type": "string", "maxLength": chars}
    return PlainSerializer(some, return_type=list[str]), WithJsonSchema(
        {"type": "array", "items": items, "maxItems": most}
    )


def at_most_by_admission(most: int) -> Any:
    """Metadata of a list that has so many items because no larger job is admitted; nothing of it is left out."""
    extra: JsonDict = {"maxItems": most}
    return Field(json_schema_extra=extra)


SENTENCE_CHARS_MAX: Final = 4096
Word: TypeAlias = Annotated[str, *cut_at(128)]
"""A reason, a kind, the name of a GPU or of a state."""
NameOfObject: TypeAlias = Annotated[str, *cut_at(253)]
Line: TypeAlias = Annotated[str, *cut_at(512)]
ShortSentence: TypeAlias = Annotated[str, *cut_at(1024)]
"""As `Sentence`, where there are many of them."""
Sentence: TypeAlias = Annotated[str, *cut_at(SENTENCE_CHARS_MAX)]
"""For a person: what happened, and what to do about it."""
