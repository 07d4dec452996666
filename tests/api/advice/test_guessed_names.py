"""The table of guessed names: of models that exist, of names that they lack, with examples that are taken."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from cotenant.api.advice.examples import EXAMPLES
from cotenant.api.advice.field_tree import places
from cotenant.api.advice.guessed_names import GUESSED, guessed, of_an_own_name
from cotenant.api.advice.guessed_values import GUESSED_SHAPES, MOVED_VALUES, RULED_VALUES, SYNONYMS
from cotenant.api.resources.gpunodes import GPUNode
from cotenant.api.resources.queues import Queue
from cotenant.api.resources.trainingjobs import TrainingJob
from cotenant.api.validation.refused_names import REFUSED
from cotenant.api.validation.rules import Model


def models(base: type[Model]) -> Iterator[type[Model]]:
    for one in base.__subclasses__():
        yield one
        yield from models(one)


MODELS = {model.__name__: model for model in models(Model) if model.__module__.startswith("cotenant.api.resources")}
KINDS = {"TrainingJob": TrainingJob, "Queue": Queue, "GPUNode": GPUNode}
ROWS = [(model, row) for model, rows in GUESSED.items() for row in rows]


def test_every_model_of_a_table_exists_and_has_the_fields_that_it_names() -> None:
    tables = (EXAMPLES, GUESSED_SHAPES, MOVED_VALUES, SYNONYMS)
    named = [(model, field.removesuffix("[]")) for table in tables for model, field in table]
    assert [(model, field) for model, field in named if field not in MODELS[model].field_names()] == []
    assert {model for model, _ in RULED_VALUES} | GUESSED.keys() | REFUSED.keys() <= MODELS.keys()


def test_no_guessed_or_refused_name_is_a_field_and_none_is_in_two_rows() -> None:
    names = [(model, name) for model, row in ROWS for name in row.names]
    assert sorted(set(names)) == sorted(names)
    taken = [(model, name) for model, name in names if name in MODELS[model].field_names()]
    assert taken == []
    assert [(model, name) for model in REFUSED for name in REFUSED[model] if name in MODELS[model].field_names()] == []


@pytest.mark.parametrize(("model", "row"), ROWS, ids=[f"{model} {row.names[0]}" for model, row in ROWS])
def test_every_row_leads_to_a_field(model: str, row: object) -> None:
    known = {path for kind in KINDS.values() for path, _ in places(kind)}
    for path in getattr(row, "example"):  # noqa: B009  # the row is typed as the parametrization types it
        if path.startswith("."):
            known_here = {f".{name}" for name, _ in places(MODELS[model])} | {
                f".{name}" for name in MODELS[model].field_names()
            }
            assert path in known_here
        else:
            assert path in known or re.fullmatch(r"metadata\.(name|namespace|labels)", path)


def test_a_name_is_looked_up_by_its_model() -> None:
    row = guessed("TrainingJobSpec", "replicas")
    assert row is not None
    assert (row.read("4"), row.read("many"), guessed("Queue", "replicas")) == ({"spec.workers": 4}, None, None)


def test_a_map_of_own_names_is_read_where_one_is_expected() -> None:
    assert of_an_own_name("EnvVar", "LR", 0.1) == {".name": "LR", ".value": "0.1"}
    assert of_an_own_name("EnvVar", "L-R", 0.1) is None
    assert of_an_own_name("NamespaceSelector", "team", "a") == {".matchLabels": {"team": "a"}}
    assert of_an_own_name("GpuSpec", "team", "a") is None
