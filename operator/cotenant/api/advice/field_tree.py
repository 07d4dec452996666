"""Fields of the models as documents spell them: what a path leads to, where a name occurs, what a field accepts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from cotenant.api.validation.rules import Model, ValueRefusedError


def model_at(kind: type[Model], location: Sequence[str | int]) -> type[Model] | None:
    """Model that the object at `location` is read as; None if it is no object with fields."""
    found: type[Model] | None = kind
    for part in location:
        if isinstance(part, str) and found is not None:
            found = next(_within(_annotation(found, part), Model), None)
    return found


def as_taken(model: type[Model], field: str, value: Any) -> Any:
    """The value as the field accepts it: unchanged, in a list, or respelled as its refusal proposes; otherwise None."""
    found = _field(model, field)
    if found is None or value is None:
        return None
    annotation: Any = Annotated[(found.annotation, *found.metadata)] if found.metadata else found.annotation
    reader = TypeAdapter[Any](annotation)
    one_word = isinstance(value, str) and " " not in value
    for candidate in (value, [value]) if one_word else (value,):
        try:
            reader.validate_python(candidate)
        except ValidationError as error:
            cause = (error.errors()[0].get("ctx") or {}).get("error")
            if isinstance(cause, ValueRefusedError) and cause.instead is not None and error.error_count() == 1:
                return cause.instead
        else:
            return candidate
    return None


def choices(model: type[Model], field: str) -> tuple[str, ...]:
    """Words that a field accepts, if it accepts certain words only."""
    annotation = _annotation(model, field)
    words = [str(member) for enum in _within(annotation, StrEnum) for member in enum]
    return tuple(words or _constants(annotation))


Place: TypeAlias = tuple[str, type[Model]]
"""Path of a field, and the model that has it."""


@cache
def places(model: type[Model]) -> tuple[Place, ...]:
    """Every field of an object outside lists, outermost first; of a whole document, those of its spec."""
    return tuple(sorted(_below(model, ""), key=lambda place: place[0].count(".")))


def _below(model: type[Model], path: str) -> Iterator[Place]:
    for key, field in model.model_fields.items():
        name = field.alias or key
        if name in {"status", "metadata", "apiVersion", "kind"}:
            continue
        here = f"{path}.{name}" if path else name
        yield here, model
        if not any(get_origin(part) is tuple for part in _parts(field.annotation)):
            for inner in _within(field.annotation, Model):
                yield from _below(inner, here)


def _field(model: type[Model], name: str) -> FieldInfo | None:
    return next((field for key, field in model.model_fields.items() if (field.alias or key) == name), None)


def _annotation(model: type[Model], name: str) -> Any:
    field = _field(model, name)
    return None if field is None else field.annotation


def _parts(annotation: Any) -> Iterator[Any]:
    """An annotation and everything inside it: `X | None`, `tuple[X, ...]`, `Annotated[X, …]`."""
    yield annotation
    for inner in get_args(annotation):
        yield from _parts(inner)


def _within(annotation: Any, base: type) -> Iterator[Any]:
    return (part for part in _parts(annotation) if isinstance(part, type) and issubclass(part, base))


def _constants(annotation: Any) -> list[str]:
    return [word for part in _parts(annotation) if get_origin(part) is Literal for word in get_args(part)]
