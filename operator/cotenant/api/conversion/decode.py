"""Document of any kind → the model of its kind, or its problems: for whole files, as `cotenant validate` reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cotenant import names
from cotenant.api.advice.corrections import written
from cotenant.api.advice.near_names import nearest
from cotenant.api.conversion.to_core import parse
from cotenant.api.resources.queue_status import LocalQueue
from cotenant.api.schema.kinds import RESOURCES
from cotenant.api.validation.problems import DocumentError, Problem
from cotenant.api.validation.rules import Model, given

KINDS: Final = {one.kind: one.model for one in RESOURCES if one.model is not LocalQueue}
"""The kinds that people write."""


@dataclass(frozen=True, slots=True)
class CheckedDocument:
    """A document's model, or its problems."""

    name: str
    """Kind and name for messages: `TrainingJob team-a/mnist`."""
    model: Model | None = None
    problems: tuple[Problem, ...] = ()
    ours: bool = True
    """False for another API group, which is not checked."""
    instead: str = ""
    """Kind that takes the place of one of another scheduler or training operator."""


def check(body: Any) -> CheckedDocument:
    """Parse a document of a kind that people write. Problems are returned, never raised."""
    if not isinstance(body, Mapping):
        return CheckedDocument(
            "the document", problems=(Problem("", f"must be an object with fields, not {given(body)}"),)
        )
    kind, version = body.get("kind"), body.get("apiVersion")
    if _is_of_another_group(kind, version):
        return CheckedDocument(f"{kind} {_name(body)}", ours=False, instead=_in_place_of(kind, version))
    meant = _meant(kind)
    wrong = tuple(_kind_problems(kind, version, meant))
    name = f"{kind or 'the document'} {_name(body)}"
    if meant is None:
        return CheckedDocument(name, problems=wrong)
    try:
        parsed = parse(KINDS[meant], {**body, "kind": meant, "apiVersion": names.API_VERSION} if wrong else body)
        return CheckedDocument(name, problems=wrong) if wrong else CheckedDocument(name, parsed)
    except DocumentError as error:
        return CheckedDocument(name, problems=(*wrong, *error.problems))


def _is_of_another_group(kind: Any, version: Any) -> bool:
    """True if the document belongs to another API group and was not meant for ours."""
    if not isinstance(version, str) or kind in KINDS:
        return False
    group = version.split("/", 1)[0]
    return group != names.GROUP and not (nearest(group, [names.GROUP]) and _meant(kind))


def _meant(kind: Any) -> str | None:
    """The kind, or one that is spelled similarly, or the one that other systems call so (PyTorchJob, ClusterQueue)."""
    if not isinstance(kind, str):
        return None
    return nearest(kind, KINDS) or next((one for end, one in _ENDS.items() if kind.lower().endswith(end)), None)


_ENDS = {
    "notebook": "Session", "raycluster": "Session", "job": "TrainingJob", "queue": "Queue", "cohort": "Queue",
    "experiment": "Sweep",
}  # fmt: skip
_OTHER_SYSTEMS = ("kueue.x-k8s.io", "volcano.sh", "run.ai", "ray.io", "kubeflow.org")


def _in_place_of(kind: Any, version: Any) -> str:
    group = str(version).partition("/")[0]
    return (_meant(kind) or "") if group.endswith(_OTHER_SYSTEMS) else ""


def _kind_problems(kind: Any, version: Any, meant: str | None) -> Iterator[Problem]:
    if version not in names.API_VERSIONS:
        yield Problem("apiVersion", f"must be {names.API_VERSION}, not {given(version)}")
    if kind not in KINDS:
        instead = f"; {written({'kind': meant})}" if meant else ""
        yield Problem("kind", f"must be one of {', '.join(KINDS)}, not {given(kind)}{instead}")


def _name(body: Mapping[str, Any]) -> str:
    metadata = body.get("metadata")
    if not isinstance(metadata, Mapping):
        return "(without a name)"
    name = metadata.get("name") or metadata.get("generateName") or "(without a name)"
    return f"{metadata['namespace']}/{name}" if metadata.get("namespace") else str(name)
