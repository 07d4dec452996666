"""The answer that a refusal ends with: what to write instead, with the values that were given put in.

From pydantic's error to words: a name that is guessed or mistyped, a field in the wrong place, a value of another shape
or spelling, a field that is missing. Nothing is read through an answer; the document stays refused.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import ValidationError

from cotenant.api.advice.carried_over import listed, text, whole
from cotenant.api.advice.corrections import Correction, written
from cotenant.api.advice.examples import EXAMPLES
from cotenant.api.advice.field_tree import choices, model_at, places
from cotenant.api.advice.guessed_name import GuessedName
from cotenant.api.advice.guessed_names import guessed, of_an_own_name
from cotenant.api.advice.guessed_values import GUESSED_SHAPES, MOVED_VALUES, RULED_VALUES, SYNONYMS
from cotenant.api.advice.near_names import nearest
from cotenant.api.validation.errors import MISSING, Rejection, field_path, problems_of
from cotenant.api.validation.problems import Problem
from cotenant.api.validation.rules import VIOLATED_RULES, Model, ValueRefusedError

_TRUE, _FALSE = {"true", "yes", "on", "1"}, {"false", "no", "off", "0"}
_SHOWN_FIELDS = 24


def answered(error: ValidationError, kind: type[Model]) -> tuple[Problem, ...]:
    """Problems of a document of that kind, each with its answer.

    That a field is missing is left out where another problem's answer writes it: `gpus: 2` is one mistake, not two.
    """
    problems = problems_of(error, lambda rejection: answer(rejection, kind))
    answers = " ".join(problem.message for problem in problems if not _is_missing(problem))
    return tuple(
        one for one in problems if not (_is_missing(one) and re.search(rf"`{re.escape(one.field)}[.:]", answers))
    )


def _is_missing(problem: Problem) -> bool:
    return problem.message.startswith(MISSING)


def answer(rejection: Rejection, kind: type[Model]) -> str:
    """What to write instead; empty where the refusal itself says all there is to say."""
    *above, last = rejection.location or ("",)
    holder = model_at(kind, above)
    field = (holder.__name__ if holder is not None else "", str(last))
    if isinstance(last, int) and above:
        outer = model_at(kind, above[:-1])
        field = (outer.__name__ if outer is not None else "", f"{above[-1]}[]")
    if rejection.type == "extra_forbidden" and holder is not None:
        return _of_a_name(str(last), rejection.value, holder, kind, field_path(above))
    if rejection.type == VIOLATED_RULES:
        found = RULED_VALUES[field](rejection.value) if field in RULED_VALUES else None
        return written(found) if found else ""
    if rejection.type == "missing":
        return for_example(field_path(rejection.location), EXAMPLES.get(field))
    if rejection.value is None:
        return "leave it out"
    moved = MOVED_VALUES[field](rejection.value) if field in MOVED_VALUES else None
    if moved:
        return written(_absolute(moved, field_path(above)))
    return _of_a_value(rejection, holder, field)


def _of_a_value(rejection: Rejection, holder: type[Model] | None, field: tuple[str, str]) -> str:
    here = field_path(rejection.location)
    if isinstance(rejection.cause, ValueRefusedError):
        found = rejection.cause.instead
        if found is None and field in GUESSED_SHAPES:
            found = GUESSED_SHAPES[field](rejection.value)
    elif rejection.type in {"enum", "literal_error"}:
        found = _word(rejection.value, holder, field[1]) if holder is not None else None
    else:
        found = _reshaped(rejection, field)
    if found is not None:
        return written({here: found})
    return for_example(here, EXAMPLES.get(field)) if rejection.type.endswith(("_type", "too_short")) else ""


def for_example(path: str, example: Any) -> str:
    """ "write for example `spec.gpu: {count: 1}`"; empty without an example."""
    return written({path: example}).replace("write", "write for example", 1) if example is not None else ""


def example_of_a_name(name: str, model: str, kind: type[Model]) -> str:
    """Answer to a guessed or misplaced name where its value is not known."""
    row = guessed(model, name)
    if row is not None:
        example = {path.removeprefix("."): value for path, value in row.example.items()}
        if not example:
            return f"leave it out: {row.why}"
        return f"{written(example)}{f' ({row.why})' if row.why else ''}"
    path, holder = _elsewhere(name, kind)[0]
    found = EXAMPLES.get((holder.__name__, name))
    return written({path: found}) if found is not None else f"write it as `{path}`"


def own_value_of_a_name(name: str, model: str) -> str:
    """Path under which the value that was given to a guessed name goes on as it is; empty where it does not."""
    row = guessed(model, name)
    path = next(iter(row.example), "") if row is not None and row.moved else ""
    return "" if path.startswith(".") else path


def _of_a_name(name: str, value: Any, holder: type[Model], kind: type[Model], above: str) -> str:
    row = guessed(holder.__name__, name)
    if row is not None:
        return _of_a_guess(row, value, above)
    known = holder.field_names()
    prefix = f"{above}." if above else ""
    near = nearest(name, known)
    if near is not None and _same_word(name, near):
        return _renamed(f"{prefix}{near}", value, holder)
    own = of_an_own_name(holder.__name__, name, value) if near is None else None
    if own:
        return written(_absolute(own, above))
    inner = [(f"{prefix}{path}", model) for path, model in _elsewhere(name, holder)]
    elsewhere = _elsewhere(name, kind) or inner
    if len(elsewhere) == 1:
        path, model = elsewhere[0]
        return _renamed(path, value, model)
    if elsewhere:
        return f"write it as {' or '.join(f'`{path}`' for path, _ in elsewhere)}"
    if near is not None:
        return _renamed(f"{prefix}{near}", value, holder)
    shown = sorted(known)[:_SHOWN_FIELDS]
    return f"leave it out; the fields of {above or 'the document'} are {', '.join(shown)}"


def _elsewhere(name: str, kind: type[Model]) -> list[tuple[str, type[Model]]]:
    """Places that have a field of this name, the outermost only."""
    found = [(path, model) for path, model in places(kind) if path.rsplit(".", 1)[-1] == name]
    return [place for place in found if place[0].count(".") == found[0][0].count(".")]


def _of_a_guess(row: GuessedName, value: Any, above: str) -> str:
    if not row.example:
        return f"leave it out: {row.why}"
    found = row.read(value) if value is not None else None
    own = written(_absolute(found, above)) if found else ""
    example = written(_absolute(row.example, above)).replace("write", "write for example", 1)
    return f"{own or example}{f' ({row.why})' if row.why else ''}"


def _absolute(correction: Correction, above: str) -> Correction:
    return {f"{above}{path}" if path.startswith(".") else path: value for path, value in correction.items()}


def _same_word(name: str, known: str) -> bool:
    return name.lower().replace("_", "").replace("-", "") == known.lower()


def _renamed(path: str, value: Any, holder: type[Model]) -> str:
    """The value under its right name, in the shape that the field has."""
    field = (holder.__name__, path.rsplit(".", 1)[-1])
    read = GUESSED_SHAPES.get(field)
    found = read(value) if read is not None else None
    if value is None:
        found = EXAMPLES.get(field)
    return written({path: value if found is None else found}) or f"write it as `{path}`"


def _word(value: Any, holder: type[Model], field: str) -> str | None:
    plain = text(value)
    if plain is None:
        return None
    return SYNONYMS.get((holder.__name__, field), {}).get(plain.lower()) or nearest(plain, choices(holder, field))


def _reshaped(rejection: Rejection, field: tuple[str, str]) -> Any:
    """Value in the shape of its field, by the table or by the rules that hold for every field."""
    value = rejection.value
    read = GUESSED_SHAPES.get(field)
    if read is not None:
        return read(value)
    match rejection.type:
        case "int_type" | "int_from_float":
            return whole(value)
        case "string_type":
            # YAML makes true out of `yes` and `on`: as an argument the word is as good, as a name it is not.
            argument = isinstance(rejection.location[-1], int) or rejection.location[-1] == "value"
            return text(value) if argument or not isinstance(value, bool) else None
        case "bool_type":
            word = (text(value) or "").lower()
            return True if word in _TRUE else False if word in _FALSE else None
        case "tuple_type" | "list_type":
            return listed(value)
    return None
