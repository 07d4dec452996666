"""The checked-in CRDs are those of the models, structural, bounded, and cheap to check."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cotenant.api.schema import crds, kinds
from cotenant.cli.main import main

if TYPE_CHECKING:
    pass

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("folder", ["crds", "charts/cotenant/crds"])
def test_what_is_checked_in_is_what_the_models_say(folder: str) -> None:
    found = {path.name: path.read_text() for path in (ROOT / folder).glob("*.yaml")}
    assert found == crds.files(), "run `make crds`"


def test_check_fails_on_drift_and_names_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crds", "--root", str(tmp_path)]) == 0
    assert main(["crds", "--check", "--root", str(tmp_path)]) == 0
    (tmp_path / "crds/queues.yaml").write_text("changed")
    (tmp_path / "charts/cotenant/crds/old.yaml").write_text("left behind")
    assert main(["crds", "--check", "--root", str(tmp_path)]) == 1
    assert capsys.readouterr().err == (
        "cotenant: not what the code says: crds/queues.yaml, charts/cotenant/crds/old.yaml. Run `make crds`.\n"
    )


@pytest.mark.parametrize("name", sorted(crds.files()))
def test_a_definition_fits_into_the_annotation_that_kubectl_apply_and_argo_cd_write(name: str) -> None:
    """All annotations of an object have 262144 bytes. A fifth is left for the fields to come."""
    document = yaml.safe_load(crds.files()[name])
    assert len(json.dumps(document, separators=(",", ":"))) < 0.78 * 262_144


def every_node(schema: dict[str, Any], path: str = "") -> list[tuple[str, dict[str, Any]]]:
    below = [(f"{path}.{name}", inner) for name, inner in schema.get("properties", {}).items()]
    below += [(f"{path}[]", schema["items"])] if "items" in schema else []
    below += [(f"{path}{{}}", schema["additionalProperties"])] if "additionalProperties" in schema else []
    return [(path, schema), *(node for where, inner in below for node in every_node(inner, where))]


@pytest.mark.parametrize("resource", kinds.RESOURCES, ids=lambda resource: resource.kind)
def test_every_field_has_one_type_and_no_reference(resource: kinds.CustomResource) -> None:
    version = crds.document(resource)["spec"]["versions"][0]
    nodes = every_node(version["schema"]["openAPIV3Schema"])
    assert [path for path, node in nodes if not (node.get("type") or node.get("x-kubernetes-int-or-string"))] == []
    assert [path for path, node in nodes if {"$ref", "anyOf", "oneOf", "allOf", "title"} & node.keys()] == []


def filled_in(schema: dict[str, Any], given: Any, path: str = "") -> list[str]:
    """Fields that the API server writes into this object by their defaults."""
    if isinstance(given, list):
        return [found for one in given for found in filled_in(schema["items"], one, f"{path}[]")]
    added = []
    for name, node in schema.get("properties", {}).items():
        if "default" in node and name not in given:
            added.append(f"{path}.{name}")
        value = given.get(name, node.get("default"))
        if isinstance(value, dict | list):
            added += filled_in(node, value, f"{path}.{name}")
    return added


@pytest.mark.parametrize(
    ("kind", "spec", "known"),
    [
        (
            "TrainingJob",
            {"gpu": {}, "runtime": {}},
            ".suspend .gpu.sharing .runtime.rayTrain .runtime.strategy .runtime.collective .runtime.precision"
            " .runtime.gpuProcesses .gracePeriod .retries",
        ),
        ("Session", {"gpu": {}}, ".gpu.sharing .idleTimeout .maxLifetime .gracePeriod .suspend"),
        (
            "Queue",
            {"quotas": [{}]},
            ".weight .quotas[].guaranteed .maxPending .maxPending.jobs .maxPending.workers .consolidation",
        ),
    ],
    ids=["TrainingJob", "Session", "Queue"],
)
def test_of_later_fields_none_is_written_into_every_object(kind: str, spec: dict[str, Any], known: str) -> None:
    """An operator of the release before refuses them (`NOT_FILLED_IN`): these are the fields of the first release."""
    (resource,) = (one for one in kinds.RESOURCES if one.kind == kind)
    schema = crds.document(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert sorted(filled_in(schema, spec)) == sorted(known.split())


def test_every_list_and_text_of_a_spec_has_a_longest_length() -> None:
    unbounded = []
    for resource in kinds.RESOURCES:
        root = crds.document(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for path, node in every_node(root["properties"].get("spec", {})):
            bounds = {"array": "maxItems", "string": "maxLength"}
            bound = bounds.get(node.get("type", ""))
            if bound and bound not in node and "enum" not in node:
                unbounded.append(f"{resource.kind}{path}")
    assert unbounded == []


def test_a_status_is_never_filled_in_by_the_api_server() -> None:
    for resource in kinds.RESOURCES:
        root = crds.document(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        nodes = every_node(root["properties"]["status"])
        assert [path for path, node in nodes if "default" in node or "x-kubernetes-validations" in node] == []


@pytest.mark.parametrize("resource", kinds.RESOURCES, ids=lambda resource: resource.kind)
def test_no_rule_in_a_list_reads_what_may_be_a_number_or_a_text(resource: kinds.CustomResource) -> None:
    """The API server of Kubernetes 1.32 takes such a value for as long as a request may be, for every entry of the
    list, and refuses the whole CRD as too costly; `double` of it and its type cost nothing."""
    root = crds.document(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    costly = []
    for path, node in every_node(root):
        either = [name for name, inner in node.get("properties", {}).items() if inner.get("x-kubernetes-int-or-string")]
        words = ["self"] if node.get("x-kubernetes-int-or-string") else [f"self.{name}" for name in either]
        for rule in node.get("x-kubernetes-validations", ()) if "[]" in path or "{}" in path else ():
            text = re.sub(r"double\(self(\.\w+)?\)", "", rule["rule"])
            costly += [f"{path}: {rule['rule']}" for word in words if re.search(rf"(string|quantity)\({word}\)", text)]
            costly += [f"{path}: {rule['rule']}" for word in words if re.search(rf"{word}\.matches", text)]
    assert costly == []


@pytest.mark.parametrize("resource", kinds.RESOURCES, ids=lambda resource: resource.kind)
def test_no_schema_has_an_empty_part_that_the_api_server_would_not_store(resource: kinds.CustomResource) -> None:
    schema = crds.document(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    parts = ("properties", "items", "enum", "required", "x-kubernetes-validations")
    assert [
        (path, part) for path, node in every_node(schema) for part in parts if part in node and not node[part]
    ] == []
