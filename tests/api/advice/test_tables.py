"""The tables of suggestions: of models that exist, of names that they lack, with examples that are taken."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from cotenant.api.advice.field_tree import as_taken, choices, model_at
from cotenant.api.advice.tables import WrongName, tables
from cotenant.api.resources.gpunodes import GPUNode
from cotenant.api.resources.queues import Queue
from cotenant.api.resources.trainingjobs import TrainingJob
from cotenant.api.schema import kinds
from cotenant.api.validation.refused_names import REFUSED
from cotenant.api.validation.rules import Model


def models(base: type[Model]) -> Iterator[type[Model]]:
    assert kinds.RESOURCES  # with them every model is loaded
    for one in base.__subclasses__():
        yield one
        yield from models(one)


MODELS = {model.__name__: model for model in models(Model) if model.__module__.startswith("cotenant.api.resources")}
KIND_OF: dict[str, type[Model]] = {
    **dict.fromkeys(("QueueSpec", "QuotaSpec", "UserLimits", "Budget"), Queue),
    "GPUNode": GPUNode,
}
ROWS = [
    pytest.param(model, row, id=f"{model} {row.names[0]}") for model in tables().names for row in tables().names[model]
]
EXAMPLES = [
    pytest.param(model, field, example, id=f"{model}.{field}")
    for model, fields in tables().examples.items()
    for field, example in fields.items()
]
KIND_AND_VERSION = {"apiVersion", "kind"}


def test_every_model_of_the_tables_has_the_fields_that_they_name() -> None:
    read = tables()
    named = [
        (model, field) for table in (read.examples, read.words, read.notes) for model in table for field in table[model]
    ]
    assert [one for one in named if one[1].removesuffix("[]") not in MODELS[one[0]].field_names()] == []
    assert read.names.keys() | REFUSED.keys() <= MODELS.keys()


def test_no_wrong_or_refused_name_is_a_field_and_none_is_in_two_rows() -> None:
    names = [(model, name) for model, rows in tables().names.items() for row in rows for name in row.names]
    assert sorted(set(names)) == sorted(names)
    refused = [(model, name) for model in REFUSED for name in REFUSED[model]]
    assert [one for one in names + refused if one[1] in MODELS[one[0]].field_names()] == []


@pytest.mark.parametrize(("model", "row"), ROWS)
def test_every_row_leads_to_fields_that_take_its_examples_or_says_why_there_is_none(model: str, row: WrongName) -> None:
    assert row.write or row.why
    for path, example in row.write.items():
        if re.fullmatch(r"metadata\.(name|namespace)", path):
            continue
        start = MODELS[model] if path.startswith(".") else KIND_OF.get(model, TrainingJob)
        *above, last = path.strip(".").split(".")
        holder = model_at(start, above)
        assert holder is not None
        assert as_taken(holder, last, example) == example


@pytest.mark.parametrize(("model", "field", "example"), EXAMPLES)
def test_every_example_is_taken_by_its_field(model: str, field: str, example: Any) -> None:
    if field in {"metadata", *KIND_AND_VERSION}:
        return
    of_a_list = field.endswith("[]")
    value = [example] if of_a_list else example
    assert as_taken(MODELS[model], field.removesuffix("[]"), value) == value


def test_every_word_stands_for_one_that_the_field_takes() -> None:
    for model, fields in tables().words.items():
        for field, words in fields.items():
            assert set(words.values()) <= set(choices(MODELS[model], field)), (model, field)


@pytest.mark.parametrize(
    ("field", "value", "want"),
    [
        ("workers", 3, 3),
        ("workers", "3", None),
        ("workers", {"min": 1}, None),
        ("maxRuntime", "2h", "2h"),
        ("maxRuntime", 3600, "1h"),
        ("maxRuntime", "soon", None),
        ("nothing", 3, None),
        ("queue", None, None),
    ],
)
def test_a_value_is_shown_as_its_field_takes_it(field: str, value: Any, want: Any) -> None:
    holder = model_at(TrainingJob, ["spec"])
    assert holder is not None
    assert as_taken(holder, field, value) == want


@pytest.mark.parametrize(("value", "want"), [("H100", ["H100"]), (["H100"], ["H100"]), ("H 100", None), (7, None)])
def test_one_word_for_a_list_is_shown_as_a_list(value: Any, want: Any) -> None:
    assert as_taken(MODELS["GpuSpec"], "classes", value) == want
