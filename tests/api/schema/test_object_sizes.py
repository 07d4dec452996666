"""A TrainingJob always fits into etcd: the largest legal spec, the largest status that is written, and metadata."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from cotenant.api.conversion.decode import check
from cotenant.api.resources.job_spec.runtime import MAX_PROGRAM_CHARS
from cotenant.api.schema import crds, kinds
from cotenant.api.schema.answered_names import NO_FIELD
from tests.api.schema.test_crds import every_node
from tests.support.largest_job import largest_job, largest_profile, overfull_status, placement, stored_bytes

if TYPE_CHECKING:
    pass

ETCD_BYTES = 1536 * 1024
"""Of one request, unless somebody set `--max-request-bytes`."""
MIB = 1024 * 1024
ANNOTATIONS_BYTES = 256 * 1024
"""What the API server takes of annotations, before it escapes them."""
MANAGED_FIELDS_BYTES = 48 * 1024
"""A manager that owns all of the largest spec; twice as much with a second one."""
SPEC_BYTES, STATUS_BYTES = 328 * 1024, 856 * 1024
"""Of the worst texts: each character is one of which six bytes are stored."""
PLAIN_SPEC_BYTES, PLAIN_STATUS_BYTES = 168 * 1024, 544 * 1024


def schema() -> dict[str, Any]:
    (jobs,) = (one for one in kinds.RESOURCES if one.kind == "TrainingJob")
    found: dict[str, Any] = crds.document(jobs)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return without_refused_names(found)


def without_refused_names(node: dict[str, Any]) -> dict[str, Any]:
    """Schema of what can be stored: a name that a rule always refuses is in no object."""
    names = {
        name: without_refused_names(inner)
        for name, inner in node.get("properties", {}).items()
        if not inner.get("description", "").startswith(NO_FIELD)
    }
    items = {"items": without_refused_names(node["items"])} if "items" in node else {}
    return {**node, **items, **({"properties": names} if "properties" in node else {})}


@pytest.mark.parametrize("part", ["spec", "status"])
def test_every_text_list_and_mapping_of_a_job_has_a_bound(part: str) -> None:
    unbounded = []
    for path, node in every_node(schema()["properties"][part]):
        kind = node.get("type")
        free = kind == "string" and "enum" not in node and node.get("format") != "date-time"
        if free and "maxLength" not in node:
            unbounded.append(path)
        if kind == "array" and "maxItems" not in node:
            unbounded.append(path)
        if kind == "object" and "properties" not in node and "maxProperties" not in node:
            unbounded.append(path)
    assert unbounded == []


@pytest.mark.parametrize(("letter", "most"), [("<", SPEC_BYTES), ("x", PLAIN_SPEC_BYTES)])
def test_the_largest_legal_spec_fits(letter: str, most: int) -> None:
    document = largest_job(letter)
    assert check(document).problems == ()
    assert most / 2 < stored_bytes(document["spec"]) <= most


def test_the_largest_profile_that_a_status_repeats_is_legal() -> None:
    metadata = {"name": "p" * 63, "namespace": "default"}
    document = {"apiVersion": "cotenant.dev/v1beta1", "kind": "TrainingProfile", "metadata": metadata}
    assert check(document | {"spec": largest_profile()}).problems == ()


@pytest.mark.parametrize(("letter", "most"), [("<", STATUS_BYTES), ("x", PLAIN_STATUS_BYTES)])
def test_the_largest_status_that_is_written_fits(letter: str, most: int) -> None:
    assert most / 2 < stored_bytes(overfull_status(letter).to_document()) <= most


def test_all_together_stay_below_a_mebibyte_and_the_worst_texts_below_what_etcd_takes() -> None:
    assert PLAIN_SPEC_BYTES + PLAIN_STATUS_BYTES + ANNOTATIONS_BYTES + MANAGED_FIELDS_BYTES <= MIB
    assert SPEC_BYTES + STATUS_BYTES + ANNOTATIONS_BYTES + 2 * MANAGED_FIELDS_BYTES <= ETCD_BYTES


def test_the_placement_of_the_largest_gang_takes_less_than_half_of_a_mebibyte() -> None:
    assert MIB / 3 < stored_bytes(placement()) < MIB / 2


def violations(value: Any, node: dict[str, Any], path: str = "") -> Iterator[str]:
    """Bounds of the schema that a document does not keep."""
    sizes = {"maxLength": str, "maxItems": list, "maxProperties": dict}
    for bound, kind in sizes.items():
        if bound in node and isinstance(value, kind) and len(value) > node[bound]:
            yield f"{path}: {len(value)} > {node[bound]}"
    if isinstance(value, dict):
        for key, inner in value.items():
            below = node.get("properties", {}).get(key) or node.get("additionalProperties") or {}
            yield from violations(inner, below, f"{path}.{key}")
    if isinstance(value, list):
        for inner in value:
            yield from violations(inner, node.get("items", {}), f"{path}[]")


def test_what_is_written_keeps_the_bounds_of_the_schema_whatever_the_operator_makes_of_it() -> None:
    status = schema()["properties"]["status"]
    assert list(violations(overfull_status().model_dump(mode="python", by_alias=True), {})) == []
    assert list(violations(overfull_status().to_document(), status)) == []
    cut = overfull_status().model_copy(update={"message": "y" * 99_999})
    assert list(violations(cut.to_document(), status)) == []


def test_what_is_cut_keeps_its_beginning_and_of_lines_the_last() -> None:
    written = overfull_status("x").to_document()
    assert (written["message"][:3], written["message"][-1], len(written["message"])) == ("xxx", "…", 4096)
    assert written["excludedNodes"][-1]["node"] == f"{999:0253}"
    assert (len(written["lastExit"]["tail"]), set(written["lastExit"]["tail"])) == (100, {"x" * 40})


def test_one_character_more_of_the_program_is_refused_and_says_what_to_do() -> None:
    document = largest_job()
    document["spec"]["runtime"]["command"][1] += "p"
    (problem,) = check(document).problems
    assert str(problem) == (
        "spec.runtime: command, args and the values of env have more than 32768 characters together, the most that fit"
        " into the object of a job; put long texts into files of code, or of a ConfigMap in volumes"
    )


@pytest.mark.parametrize(
    "program",
    [
        {"command": ["python"], "args": ["a" * (MAX_PROGRAM_CHARS - 6)]},
        {"command": ["p" * 4096], "env": [{"name": f"A{n}", "value": "a" * 4096} for n in range(7)]},
    ],
    ids=["a long argument", "long variables"],
)
def test_a_program_at_the_bound_is_taken(program: dict[str, Any]) -> None:
    document = largest_job()
    document["spec"]["runtime"] = program
    document["spec"]["checkpoint"] = {"path": "s3://bucket/runs"}
    assert check(document).problems == ()


def test_every_free_text_of_a_spec_is_among_what_is_counted_or_is_short() -> None:
    """A character of a free text may take six bytes. Texts with a grammar are plain."""
    counted = {".runtime.command[]", ".runtime.args[]", ".runtime.env[].value"}
    long = []
    for path, node in every_node(schema()["properties"]["spec"]):
        grammar = any(re.search(r"self\.matches", rule["rule"]) for rule in node.get("x-kubernetes-validations", ()))
        if node.get("type") == "string" and "enum" not in node and not grammar and node["maxLength"] > 512:
            long.append(path)
    assert set(long) == counted
