"""Parts of a status that are bounded when they are written, so that a status always fits into etcd.

A longer text is cut. Of a longer list, the first or the last items are kept. The CRD has the same bounds. Reading
checks none of them, because a status of an older operator may hold GPUs.
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
    """Metadata of a text that is cut to this many characters."""
    schema = WithJsonSchema({"type": "string", "maxLength": longest})
    return PlainSerializer(partial(cut, longest=longest), return_type=str), schema


def at_most(most: int, *, last: bool = False) -> Any:
    """Metadata of a list that is cut to this many items."""

    def some(value: tuple[Any, ...], write: SerializerFunctionWrapHandler) -> Any:
        return write(value[-most:] if last else value[:most])

    return WrapSerializer(some), Field(json_schema_extra={"maxItems": most})


def entries(most: int) -> Any:
    """Metadata of a mapping that is cut to this many entries."""

    def some(value: dict[Any, Any], write: SerializerFunctionWrapHandler) -> Any:
        return write(dict(islice(value.items(), most)))

    return WrapSerializer(some), Field(json_schema_extra={"maxProperties": most})


def lines_within(most: int, chars: int) -> Any:
    """Metadata of a list of lines: the last ones are kept, up to this many lines and characters."""

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
    """Metadata of a list that cannot have more items, because no larger job is admitted. Nothing is cut."""
    extra: JsonDict = {"maxItems": most}
    return Field(json_schema_extra=extra)


SENTENCE_CHARS_MAX: Final = 4096
Word: TypeAlias = Annotated[str, *cut_at(128)]
"""A reason, a kind, the name of a GPU or of a state."""
NameOfObject: TypeAlias = Annotated[str, *cut_at(253)]
Line: TypeAlias = Annotated[str, *cut_at(512)]
ShortSentence: TypeAlias = Annotated[str, *cut_at(1024)]
"""As `Sentence`, for lists of them."""
Sentence: TypeAlias = Annotated[str, *cut_at(SENTENCE_CHARS_MAX)]
"""A text for a person: what happened, and what to do about it."""
