"""Names, texts, numbers and times in documents: reader and schema of each. Amounts are in `amounts`.

Nothing is coerced: "2" is not a whole number and 2 is not a text, exactly as in the API server.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from operator import attrgetter
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, Strict, StringConstraints, WithJsonSchema
from pydantic.alias_generators import to_snake
from pydantic.config import JsonDict

from cotenant.api.validation.rules import Rule, ValueRefusedError, given, violated

Str: TypeAlias = Annotated[str, Strict()]
Int: TypeAlias = Annotated[int, Strict()]


def _without_default(schema: JsonDict) -> None:
    schema.pop("default", None)


NOT_FILLED_IN: Any = Field(json_schema_extra=_without_default)
"""Of a field that was added after the first release and has a default: the API server does not write it into every
object. An operator of the release before, during an upgrade or after a rollback, refuses fields that it does not know.
"""


def whole(least: int, most: int) -> Any:
    """Metadata of a whole number within bounds."""
    return Strict(), Field(ge=least, le=most)


Bool: TypeAlias = Annotated[bool, Strict()]

_Value = TypeVar("_Value", str, int)


def _without_nulls(value: Any) -> Any:
    return {key: one for key, one in value.items() if one is not None} if isinstance(value, dict) else value


NULL_IS_ABSENT = BeforeValidator(_without_nulls)
"""Metadata of a mapping with free keys: the API server drops entries with the value null, as it does with fields."""


def text(grammar: str, message: str, *, longest: int) -> Any:
    """Metadata of a string that must match `grammar` (RE2, anchored) and is refused with `message`."""

    def check(value: Any) -> Any:
        if isinstance(value, str) and (len(value) > longest or re.fullmatch(grammar, value) is None):
            raise ValueRefusedError(message, f", not {given(value)}", _respelled(value, grammar, longest))
        return value

    return BeforeValidator(check), WithJsonSchema(
        {
            "type": "string",
            "maxLength": longest,
            "x-kubernetes-validations": [{"rule": f"self.matches({cel_text(grammar)})", "message": message}],
        }
    )


def _respelled(value: str, grammar: str, longest: int) -> str | None:
    """The first of a few plain respellings that fits: without spaces around, in lower case, with '-' for a space."""
    trimmed = value.strip().strip("/")[:longest]
    dashed = re.sub(r"[\s_.]+", "-", trimmed).strip("-")
    under = re.sub(r"[\s.-]+", "_", trimmed).strip("_")
    forms = (trimmed, trimmed.lower(), dashed, dashed.lower(), under, f"/{trimmed}")
    return next((form for form in forms if re.fullmatch(grammar, form) and form != value), None)


def cel_text(value: str) -> str:
    """Raw CEL string for a regular expression."""
    return f"r'{value}'"


def label_keys_rule(field: str, example: str) -> Rule:
    """Rule of an object about the keys of its field with labels."""
    labels = attrgetter(to_snake(field))
    return Rule(
        field,
        f"!has(self.{field}) || self.{field}.all(key, key.matches({cel_text(LABEL_KEY)}))",
        f"every key must be a label key, such as {example} or example.com/{example}",
        lambda it: all(re.fullmatch(LABEL_KEY, key) is not None for key in labels(it)),
    )


def name_rule(grammar: str, message: str) -> Rule:
    """Rule of an object about its own name, whose schema is Kubernetes'."""

    def check(it: Any) -> bool:
        return re.fullmatch(grammar, it.metadata.final_name) is not None

    return Rule("metadata.name", f"self.metadata.name.matches({cel_text(grammar)})", message, check)


DNS_LABEL = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
LABEL_VALUE = r"^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
LABEL_KEY = r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
_SELECTED_VALUE = r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"

Label: TypeAlias = Annotated[
    Str,
    *text(DNS_LABEL, "must be a name of at most 63 lower-case letters, digits and '-', such as \"team-a\"", longest=63),
]
"""The name of a Queue or a namespace."""
ObjectName: TypeAlias = Annotated[
    Str,
    *text(SUBDOMAIN, "must be the name of an object: lower-case letters, digits, '-' and '.'", longest=253),
]
"""The name of an object of another kind in the job's namespace."""
LabelValue: TypeAlias = Annotated[
    Str,
    *text(LABEL_VALUE, "must be a label value: letters, digits, '-', '_' and '.', at most 63", longest=63),
]
"""A GPU class, a zone, a rack: a value that a node's label may have."""
USER = r"^[^\s\x00-\x1f/]([^\x00-\x1f]{0,158}[^\s\x00-\x1f])?$"
UserName: TypeAlias = Annotated[
    Str,
    *text(
        USER,
        "must be a user's name as the API server has it, such as ann@example.com, or '*' for every user",
        longest=160,
    ),
]
"""A user by the name in jobs, or `*` for all."""
LabelKey: TypeAlias = Annotated[
    Str, *text(LABEL_KEY, "must be a label key, such as team or example.com/team", longest=317)
]
SelectedValue: TypeAlias = Annotated[
    Str, *text(_SELECTED_VALUE, "must be a label value: letters, digits, '-', '_' and '.', at most 63", longest=63)
]
"""What a selector compares a label with. An empty value is allowed."""


INSTANT = (
    r"^20[0-9]{2}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"
    r"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z$"
    r"|^20([02468][048]|[13579][26])-02-29T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z$"
)
"""RFC 3339 in UTC, to the second, of this century, in which every year divisible by 4 is a leap year."""
Instant: TypeAlias = Annotated[
    Str, *text(INSTANT, "must be a moment in UTC of this century, such as 2030-01-31T18:00:00Z", longest=20)
]
"""A time in a spec, as text. Parser and API server accept the same ones."""


Priority: TypeAlias = Annotated[int, *whole(-1_000_000_000, 1_000_000_000)]
PRIORITY_ONCE = Rule(
    "priorityClassName",
    "!(has(self.priority) && has(self.priorityClassName))",
    "priority and priorityClassName exclude each other; leave one of the two out",
    lambda it: it.priority is None or it.priority_class_name is None,
)
"""Rule of a spec with both fields."""


def function_name(example: str) -> Any:
    """Metadata of the name of a Python function."""
    return text(
        r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$",
        f"must be module:function, such as {example}",
        longest=256,
    )


def bounded(longest: int, *, shortest: int = 0) -> Any:
    """Metadata of a string without a grammar, with bounds on its length."""
    return StringConstraints(strict=True, max_length=longest, min_length=shortest)


def passed_on(longest: int) -> Any:
    """Metadata of a string that a program gets as argument or variable. It contains no NUL, at which Linux would end
    both.
    """

    def check(value: str) -> str:
        if "\0" in value:
            raise ValueError("must not contain the character NUL")
        return value

    return bounded(longest), AfterValidator(check), Field(json_schema_extra={"pattern": r"^[^\x00]*$"})


def keyed_by(key: str) -> Any:
    """Metadata of a list whose items have distinct keys, by which the API server checks and merges them."""

    def distinct(items: tuple[Any, ...]) -> tuple[Any, ...]:
        values = [getattr(item, key) for item in items]
        twice = [index for index, value in enumerate(values) if value in values[:index]]
        if twice:
            raise violated(
                [
                    (f"[{index}]", f"the {key} {values[index]!r} appears twice; give one of the two another {key}")
                    for index in twice
                ]
            )
        return items

    extra: JsonDict = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
    return AfterValidator(distinct), Field(json_schema_extra=extra)


def _read_time(value: Any) -> Any:
    if isinstance(value, str):
        return datetime.fromisoformat(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return datetime.fromtimestamp(value, UTC)
    return value


def show_time(value: datetime) -> str:
    """As Kubernetes writes a time: RFC 3339 in UTC, to the second."""
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(seconds: float) -> datetime:
    """The time of these Unix seconds, in UTC."""
    return datetime.fromtimestamp(seconds, UTC)


Timestamp: TypeAlias = Annotated[
    datetime,
    BeforeValidator(_read_time),
    PlainSerializer(show_time, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""A time. Made from Unix seconds or RFC 3339; written as Kubernetes writes it, to the second, in UTC."""
