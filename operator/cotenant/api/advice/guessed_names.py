"""Names that newcomers give to fields, and what to write instead: one table for the CRD and the parser.

Misspellings have no row (`near_names`), nor do fields that only stand in the wrong place (`answers`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from cotenant.api.advice import carried_over
from cotenant.api.advice.corrections import Correction
from cotenant.api.advice.guessed_job_names import GUESSED_OF_JOBS
from cotenant.api.advice.guessed_name import GuessedName
from cotenant.api.advice.guessed_queue_names import GUESSED_OF_QUEUES

GUESSED: Final[Mapping[str, tuple[GuessedName, ...]]] = {**GUESSED_OF_JOBS, **GUESSED_OF_QUEUES}
"""Name of the model → names that are no fields of it."""

_OWN_NAMES: Final[Mapping[str, Callable[[str, Any], Correction | None]]] = {
    "EnvVar": lambda name, value: (
        {".name": name, ".value": carried_over.text(value)}
        if name.isidentifier() and carried_over.text(value)
        else None
    ),
    "NamespaceSelector": lambda name, value: {".matchLabels": {name: value}} if isinstance(value, str) else None,
}
"""Models in whose place newcomers write a map with names of their own."""


def guessed(model: str, name: str) -> GuessedName | None:
    """Row of a name that the model does not have."""
    return next((row for row in GUESSED.get(model, ()) if name in row.names), None)


def of_an_own_name(model: str, name: str, value: Any) -> Correction | None:
    """Correction of a name that is the writer's own, in a map where a list or a field belongs."""
    read = _OWN_NAMES.get(model)
    return None if read is None else read(name, value)
