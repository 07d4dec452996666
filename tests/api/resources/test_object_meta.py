"""Metadata of documents by the API server's own rules."""

from typing import Any

import pytest
from pydantic import ValidationError

from cotenant.api.resources.object_meta import ObjectMeta


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"name": "train"}, "train"),
        ({"generateName": "train-"}, "train-xxxxx"),
        ({"name": "train", "generateName": "other-"}, "train"),
        ({}, ""),
    ],
)
def test_an_object_without_a_name_has_room_for_the_one_it_will_get(fields: dict[str, Any], name: str) -> None:
    assert ObjectMeta.model_validate(fields).final_name == name


@pytest.mark.parametrize(
    "fields",
    [
        {"labels": {"example.com/team": "a", "b": ""}},
        {"labels": {"a": "x" * 63}},
        {"annotations": {"Example.com/a": "any text\n"}},
        {"annotations": {"a": "x" * (256 * 1024 - 1)}},
        {"name": "a" * 253},
    ],
    ids=["labels", "longest label", "annotation", "most annotations", "longest name"],
)
def test_what_the_api_server_takes_is_taken(fields: dict[str, Any]) -> None:
    ObjectMeta.model_validate(fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"labels": {"a b": ""}}, "'a b' is not a label key"),
        ({"labels": {"a": "x" * 64}}, "the value of a, must be at most 63"),
        ({"annotations": {"/a": ""}}, "'/a' is not an annotation key"),
        ({"annotations": {"a": "x" * (256 * 1024)}}, "all annotations together must be at most 256 KiB"),
        ({"annotations": {"a": "ü" * (128 * 1024)}}, "all annotations together must be at most 256 KiB"),
        ({"name": "A"}, "must be a name of lower-case letters"),
        ({"name": "a" * 254}, "must be a name of lower-case letters"),
        ({"namespace": "a_b"}, "must be a name of lower-case letters"),
    ],
    ids=range(8),
)
def test_what_the_api_server_refuses_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ObjectMeta.model_validate(fields)
