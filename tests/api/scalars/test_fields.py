"""Names, texts, numbers and moments: their bounds, and that nothing is made into another type."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from cotenant.api.scalars import fields
from cotenant.api.scalars.fields import bounded, keyed_by, passed_on, whole


class Item(BaseModel):
    name: str


WHOLE = Annotated[int, *whole(1, 64)]
SHORT = Annotated[str, *([bounded(3, shortest=1)])]
WORD = Annotated[str, *passed_on(3)]
ITEMS: Any = Annotated[tuple[Item, ...], *keyed_by("name")]


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (fields.Label, ["a", "team-a", "a" * 63], ["", "-a", "a-", "A", "a.b", "a" * 64, "a\n", 1]),
        (fields.ObjectName, ["a.b-c", "a" * 253], ["", ".a", "a..b", "a" * 254, "a_b"]),
        (fields.LabelValue, ["A.b_c-1", "a" * 63], ["", "-a", "a" * 64, "a b"]),
        (fields.SelectedValue, ["", "a"], ["-", "a" * 64]),
        (fields.LabelKey, ["team", "example.com/team"], ["", "/a", "a/", "Example.com/a", "a/b/c", "a" * 64]),
        (fields.Str, ["", "2"], [2, None, b"a"]),
        (fields.Int, [2, 0], ["2", 2.0, True]),
        (fields.Bool, [True, False], [1, "true", None]),
        (WHOLE, [1, 64], [0, 65, "1", 1.0]),
        (SHORT, ["a", "abc"], ["", "abcd", 1]),
        (WORD, ["", "abc"], ["abcd", "a\0", 1]),
    ],
    ids=["label", "object", "label value", "selected", "key", "str", "int", "bool", "whole", "bounded", "passed on"],
)
def test_a_field_takes_what_is_within_its_bounds_and_nothing_beside_them(
    kind: Any, good: list[object], bad: list[object]
) -> None:
    adapter = TypeAdapter(kind)
    assert [adapter.validate_python(value) for value in good] == good
    for value in bad:
        with pytest.raises(ValidationError):
            adapter.validate_python(value)


def test_a_text_is_refused_with_what_was_given() -> None:
    with pytest.raises(ValidationError) as error:
        TypeAdapter(fields.LabelValue).validate_python("a b")
    message = "Value error, must be a label value: letters, digits, '-', '_' and '.', at most 63, not "
    assert error.value.errors()[0]["msg"].startswith(message)


def test_a_key_of_a_list_appears_once() -> None:
    adapter = TypeAdapter(ITEMS)
    items = (Item(name="a"), Item(name="b"))
    assert adapter.validate_python(items) == items
    with pytest.raises(ValidationError, match="the name 'a' appears twice"):
        adapter.validate_python((*items, Item(name="a")))
    schema = adapter.json_schema()
    assert (schema["x-kubernetes-list-type"], schema["x-kubernetes-list-map-keys"]) == ("map", ["name"])


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_767_225_600.9, "2026-01-01T00:00:00Z"),
        ("2026-01-01T02:00:00+02:00", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        (datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "2026-01-01T00:00:00Z"),
    ],
)
def test_a_moment_is_written_to_the_second_in_utc(value: object, shown: str) -> None:
    adapter: TypeAdapter[datetime] = TypeAdapter(fields.Timestamp)
    read = adapter.validate_python(value)
    assert (adapter.dump_python(read), read.astimezone(UTC).year) == (shown, int(shown[:4]))


@pytest.mark.parametrize("value", [True, "soon", None, [1]])
def test_what_is_no_moment_is_refused(value: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(fields.Timestamp).validate_python(value)
