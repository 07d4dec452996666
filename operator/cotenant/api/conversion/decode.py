"""Document of any kind → the model of its kind, or its problems: for whole files, as `cotenant validate` reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cotenant import names
from cotenant.api.conversion.to_core import parse_gpunode, parse_job, parse_queue
from cotenant.api.validation.errors import DocumentError, Problem
from cotenant.api.validation.rules import Model, given

PARSERS = {"TrainingJob": parse_job, "Queue": parse_queue, "GPUNode": parse_gpunode}


@dataclass(frozen=True, slots=True)
class CheckedDocument:
    """A document's model, or its problems."""

    name: str
    """Kind and name for messages: `TrainingJob team-a/mnist`."""
    model: Model | None = None
    problems: tuple[Problem, ...] = ()
    ours: bool = True
    """False: of another API group, which is not checked."""


def check(body: Any) -> CheckedDocument:
    """Parse a document of one of the three kinds; problems are returned, never raised."""
    if not isinstance(body, Mapping):
        return CheckedDocument(
            "the document", problems=(Problem("", f"must be an object with fields, not {given(body)}"),)
        )
    kind, version = body.get("kind"), body.get("apiVersion")
    if isinstance(version, str) and version.split("/", 1)[0] != names.GROUP and kind not in PARSERS:
        return CheckedDocument(f"{kind} {_name(body)}", ours=False)
    wrong = tuple(_kind_problems(kind, version))
    if wrong:
        return CheckedDocument(f"{kind or 'the document'} {_name(body)}", problems=wrong)
    try:
        return CheckedDocument(f"{kind} {_name(body)}", PARSERS[str(kind)](body))
    except DocumentError as error:
        return CheckedDocument(f"{kind} {_name(body)}", problems=error.problems)


def _kind_problems(kind: Any, version: Any) -> Iterator[Problem]:
    if version != names.API_VERSION:
        yield Problem("apiVersion", f"must be {names.API_VERSION}, not {given(version)}")
    if kind not in PARSERS:
        yield Problem("kind", f"must be one of {', '.join(PARSERS)}, not {given(kind)}")


def _name(body: Mapping[str, Any]) -> str:
    metadata = body.get("metadata")
    if not isinstance(metadata, Mapping):
        return "(without a name)"
    name = metadata.get("name") or metadata.get("generateName") or "(without a name)"
    return f"{metadata['namespace']}/{name}" if metadata.get("namespace") else str(name)
