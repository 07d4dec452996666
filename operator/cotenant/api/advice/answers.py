"""The answer at the end of a refusal: what to write instead.

It turns pydantic's error into words: a wrong or mistyped name, a field in the wrong place, another system's word, a
missing field. It shows the given value if the right field accepts it, otherwise an example. An answer changes nothing:
the document stays refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from cotenant.api.advice.corrections import written
from cotenant.api.advice.field_tree import as_taken, choices, model_at, places
from cotenant.api.advice.near_names import nearest
from cotenant.api.advice.tables import WrongName, tables
from cotenant.api.validation.problems import Problem
from cotenant.api.validation.rejection import MISSING, Rejection, field_path, problems_of
from cotenant.api.validation.rules import VIOLATED_RULES, Model, ValueRefusedError

_SHOWN_FIELDS = 24


def answered(error: ValidationError, kind: type[Model]) -> tuple[Problem, ...]:
    """Problems of a document of that kind, each with its answer.

    A missing field is left out if another problem's answer writes it: `gpus: 2` is one mistake, not two.
    """
    problems = problems_of(error, lambda rejection: answer(rejection, kind))
    answers = " ".join(problem.message for problem in problems if not _is_missing(problem))
    return tuple(
        one for one in problems if not (_is_missing(one) and re.search(rf"`{re.escape(one.field)}[.:]", answers))
    )


def _is_missing(problem: Problem) -> bool:
    return problem.message.startswith(MISSING)


def answer(rejection: Rejection, kind: type[Model]) -> str:
    """What to write instead; empty if the refusal says it already."""
    *above, last = rejection.location or ("",)
    holder, name = model_at(kind, above), str(last)
    if isinstance(last, int) and above:
        holder, name = model_at(kind, above[:-1]), f"{above[-1]}[]"
    if rejection.type == "extra_forbidden" and holder is not None:
        return _of_a_name(name, rejection.value, holder, kind, field_path(above))
    if rejection.type == VIOLATED_RULES:
        return ""
    if rejection.value is None:
        return "leave it out"
    here = field_path(rejection.location)
    if isinstance(rejection.cause, ValueRefusedError) and rejection.cause.instead is not None:
        return written({here: rejection.cause.instead})
    if rejection.type in {"enum", "literal_error"} and holder is not None:
        return written({here: word}) if (word := _word(rejection.value, holder, name)) else ""
    if rejection.type in {"tuple_type", "list_type"} and holder is not None:
        listed = as_taken(holder, name, rejection.value)
        if listed is not None:
            return written({here: listed})
    if rejection.type.endswith(("missing", "_type", "too_short", "value_error", "int_from_float")):
        return _example_and_note(here, holder, name, rejection)
    return ""


def _example_and_note(path: str, holder: type[Model] | None, name: str, rejection: Rejection) -> str:
    example = for_example(path, _example(holder, name)) if rejection.type != "value_error" else ""
    note = tables().notes.get(holder.__name__, {}).get(name) if holder is not None else None
    if note is None or rejection.type == "missing":
        return example
    return f"{example} ({note})" if example else note


def _example(holder: type[Model] | None, name: str) -> Any:
    return None if holder is None else tables().example(holder.__name__, name)


def for_example(path: str, example: Any) -> str:
    """ "write for example `spec.gpu: {count: 1}`"; empty without an example."""
    return written({path: example}).replace("write", "write for example", 1) if example is not None else ""


def example_of_a_name(name: str, model: str, kind: type[Model]) -> str:
    """Answer to a wrong or misplaced name whose value is not known."""
    row = tables().wrong_name(model, name)
    if row is not None:
        return _of_a_row(row, {path.removeprefix("."): value for path, value in row.write.items()}, "write")
    path, holder = _elsewhere(name, kind)[0]
    return written({path: _example(holder, name)}) if _example(holder, name) is not None else f"write it as `{path}`"


def _of_a_name(name: str, value: Any, holder: type[Model], kind: type[Model], above: str) -> str:
    prefix = f"{above}." if above else ""
    row = tables().wrong_name(holder.__name__, name)
    if row is not None:
        return _of_a_wrong_name(row, value, holder, kind, above)
    known = holder.field_names()
    near = nearest(name, known)
    if near is not None and _same_word(name, near):
        return _renamed(f"{prefix}{near}", value, holder)
    inner = [(f"{prefix}{path}", model) for path, model in _elsewhere(name, holder)]
    elsewhere = _elsewhere(name, kind) or inner
    if len(elsewhere) == 1:
        return _renamed(elsewhere[0][0], value, elsewhere[0][1])
    if elsewhere:
        return f"write it as {' or '.join(f'`{path}`' for path, _ in elsewhere)}"
    if near is not None:
        return _renamed(f"{prefix}{near}", value, holder)
    shown = sorted(known)[:_SHOWN_FIELDS]
    return f"leave it out; the fields of {above or 'the document'} are {', '.join(shown)}"


def _elsewhere(name: str, kind: type[Model]) -> list[tuple[str, type[Model]]]:
    """Places that have a field of this name, outermost only."""
    found = [(path, model) for path, model in places(kind) if path.rsplit(".", 1)[-1] == name]
    return [place for place in found if place[0].count(".") == found[0][0].count(".")]


def _of_a_wrong_name(row: WrongName, value: Any, holder: type[Model], kind: type[Model], above: str) -> str:
    """The answer with the given value, if the one field that the row names accepts it; otherwise with the row's
    example.
    """
    absolute = {f"{above}{path}" if path.startswith(".") else path: example for path, example in row.write.items()}
    if len(row.write) == 1 and not row.why:
        [path] = row.write
        model = model_at(holder if path.startswith(".") else kind, path.strip(".").split(".")[:-1])
        taken = as_taken(model, path.rsplit(".", 1)[-1], value) if model is not None else None
        if taken is not None and written({path: taken}):
            return _of_a_row(row, {next(iter(absolute)): taken}, "write")
    return _of_a_row(row, absolute, "write for example")


def _of_a_row(row: WrongName, correction: Mapping[str, Any], verb: str) -> str:
    if not row.write:
        return f"leave it out: {row.why}"
    return f"{written(correction).replace('write', verb, 1)}{f' ({row.why})' if row.why else ''}"


def _same_word(name: str, known: str) -> bool:
    return name.lower().replace("_", "").replace("-", "") == known.lower()


def _renamed(path: str, value: Any, holder: type[Model]) -> str:
    """The value under its right name, or an example of that field."""
    name = path.rsplit(".", 1)[-1]
    taken = as_taken(holder, name, value)
    own = written({path: taken}) if taken is not None else ""
    return own or for_example(path, _example(holder, name)) or f"write it as `{path}`"


def _word(value: Any, holder: type[Model], field: str) -> str | None:
    """The word of the field that is meant by this one. YAML reads the words on and yes as true."""
    plain = str(value).lower() if isinstance(value, str | bool) else ""
    return tables().words.get(holder.__name__, {}).get(field, {}).get(plain) or nearest(plain, choices(holder, field))
