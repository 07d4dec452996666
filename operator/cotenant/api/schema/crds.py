"""CustomResourceDefinitions of all kinds, generated from the models; `cotenant crds` writes and checks them."""

from __future__ import annotations

from typing import Any

import yaml

from cotenant import names
from cotenant.api.schema.kinds import RESOURCES, CustomResource
from cotenant.api.schema.structural import Schema, structural
from cotenant.api.validation.rules import validation

HEADER = "# Generated from the models in operator/cotenant/api by `make crds`. Do not edit.\n"

DEPRECATION = (
    f"{names.API_VERSIONS[1]} {{kind}} is deprecated; write apiVersion: {names.API_VERSION}, nothing else changes"
)
"""What the API server tells everybody who uses the old version."""

SPEC = "What is wanted. What is, and why, stands in `status`."


def document(resource: CustomResource) -> dict[str, Any]:
    """The CustomResourceDefinition. Its versions have one shape, so the API server converts by itself, without a
    webhook.
    """
    shape = {
        "schema": {"openAPIV3Schema": _root(resource)},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [column.document() for column in resource.columns],
    }
    stored = {"name": names.VERSION, "served": True, "storage": True}
    deprecated = {"name": names.DEPRECATED_VERSION, "served": True, "storage": False, "deprecated": True}
    warning = {"deprecationWarning": DEPRECATION.format(kind=resource.kind)}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{names.GROUP}"},
        "spec": {
            "group": names.GROUP,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                "shortNames": list(resource.short),
                "categories": ["cotenant"],
            },
            "conversion": {"strategy": "None"},
            "versions": [stored | shape, deprecated | warning | shape],
        },
    }


def to_yaml(resource: CustomResource) -> str:
    body = yaml.safe_dump(document(resource), sort_keys=False, width=120, allow_unicode=True)
    return f"{HEADER}{body}"


def files() -> dict[str, str]:
    """File name → text of every CRD, as in crds/ and in the chart."""
    return {f"{resource.plural}.yaml": to_yaml(resource) for resource in RESOURCES}


def _root(resource: CustomResource) -> Schema:
    """Schema of the whole object: `metadata` is the API server's own, the rest is the model's."""
    made = structural(resource.model)
    status = structural(resource.status, spec=False)
    spec = {"spec": {"description": SPEC, **made["properties"]["spec"]}} if "spec" in made["properties"] else {}
    root: Schema = {
        "type": "object",
        "description": made["description"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
            **spec,
            "status": status,
        },
    }
    if spec:
        root["required"] = ["spec"]
    rules = [*made.get("x-kubernetes-validations", ()), *(validation(rule) for rule in resource.model.TRANSITIONS)]
    if rules:
        root["x-kubernetes-validations"] = rules
    return root
