"""Generates docs/api.md from the schemas of the CRDs, so the page and the API server's checks agree."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from cotenant.api.resources.job_spec import reserved_env
from cotenant.api.resources.trainingjobs import FIXED_FIELDS, TrainingJob
from cotenant.api.schema import crds, kinds
from cotenant.api.schema.answered_names import NO_FIELD

HEAD = """\
<!-- Generated from the models in operator/cotenant/api by `make crds`. Do not edit. -->
# API reference: `cotenant.dev/v1beta1`

How to write these documents: [tenants](tenants.md). `kubectl explain tj.spec` says the same as this page.
`cotenant validate FILE` checks documents without a cluster; it takes and refuses exactly what the API server does.

Amounts: GPUs, CPUs and GPU-hours are whole numbers or texts with at most three decimals (`2`, `"0.5"`, `500m`), memory
has a unit (`16Gi`, `512Mi`), times have units (`90s`, `2h30m`). A number with decimals needs quotes.
"""

JOB_NOTES = """\
### What may change

While a job holds GPUs, and after it has finished, these stay as they are: {fixed}. Set `suspend: true`, wait for the
phase `Suspended`, change them, and resume; or make a new job. Everything else may change at any time.

### Variables that a job cannot set

| Variables | Why |
|---|---|
{rows}

`PYTORCH_CUDA_ALLOC_CONF` and `PYTORCH_ALLOC_CONF` may be set to keys that do not touch the memory limit, such as
`expandable_segments:True`.
"""


NAMES_HEAD = """\
Names that other systems have. They are refused with the answer; of every other name that is no field the API server
says `unknown field`, and `cotenant validate` which is meant.

| Not a field | Instead |
|---|---|
"""


def markdown() -> str:
    parts = [HEAD]
    for resource in kinds.RESOURCES:
        root = crds.document(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        scope = "namespaced" if resource.namespaced else "cluster-scoped"
        parts.append(f"## {resource.kind}\n\n{root['description']} Short name `{resource.short[0]}`, {scope}.\n")
        if "spec" in root["properties"]:
            parts.append(f"### {resource.kind} spec\n\n{_table(root['properties']['spec'])}")
            rules = _rules(root)
            if rules:
                parts.append(f"Refused with these words, besides what is said of single fields:\n\n{rules}")
            parts.append(f"{NAMES_HEAD}{_refused_names(root)}")
        if resource.model is TrainingJob:
            parts.append(_job_notes())
        parts.append(f"### {resource.kind} status\n\n{_table(root['properties']['status'], spec=False)}")
    return "\n".join(parts)


def _refused_names(root: dict[str, Any]) -> str:
    """Rows of a table: where a wrong name is usually written, and the answer to it."""
    rows = [
        (path, node["description"].removeprefix(f"{NO_FIELD}: "))
        for path, node, _ in _every_name(root["properties"]["spec"], "spec")
        if node.get("description", "").startswith(NO_FIELD)
    ]
    return "".join(f"| `{path}` | {answer} |\n" for path, answer in rows)


def _job_notes() -> str:
    fixed = ", ".join(f"`{field}`" for field in FIXED_FIELDS)
    rows = "\n".join(f"| {_names(row.names)} | {row.why} |" for row in reserved_env.DENIED)
    return JOB_NOTES.format(fixed=fixed, rows=rows)


def _names(expression: str) -> str:
    inner = expression.removeprefix("^").removesuffix("$").removeprefix("(").removesuffix(")")
    return ", ".join(f"`{name.replace('.*', '*')}`" for name in _alternatives(inner))


def _alternatives(expression: str) -> Iterator[str]:
    """Branches of an expression without nesting deeper than one group: `A|B_(C|D)` → A, B_C, B_D."""
    depth, start = 0, 0
    for at, letter in enumerate(f"{expression}|"):
        depth += (letter == "(") - (letter == ")")
        if letter == "|" and depth == 0:
            branch = expression[start:at]
            start = at + 1
            prefix, _, group = branch.partition("(")
            yield from (f"{prefix}{end}" for end in group.removesuffix(")").split("|")) if group else (branch,)


def _table(schema: dict[str, Any], *, spec: bool = True) -> str:
    columns = ["Field", "Type", *(["Default"] if spec else []), "Meaning"]
    rows = [columns, ["---"] * len(columns)]
    for path, node, required in _fields(schema):
        default = [_default(node, required)] if spec else []
        rows.append([f"`{path}`", _type(node), *default, _meaning(node)])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _default(node: dict[str, Any], required: bool) -> str:
    if node.get("default", {}) == {}:
        return "required" if required else ""
    value = node["default"]
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def _fields(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any], bool]]:
    return (row for row in _every_name(schema, path) if not row[1].get("description", "").startswith(NO_FIELD))


def _every_name(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any], bool]]:
    for name, node in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        by_rule = any(rule["rule"] == f"has(self.{name})" for rule in schema.get("x-kubernetes-validations", ()))
        yield here, node, by_rule or name in schema.get("required", ())
        yield from _every_name(node, here)
        if "items" in node:
            yield from _every_name(node["items"], f"{here}[]")


_TYPES = {"string": "text", "integer": "whole number", "boolean": "true or false"}


def _type(node: dict[str, Any]) -> str:
    if "enum" in node:
        return " \\| ".join(f"`{value}`" for value in node["enum"])
    if node.get("x-kubernetes-int-or-string"):
        return "amount"
    kind = str(node["type"])
    if kind == "array":
        return f"list of {_type(node['items'])}"
    if kind == "integer" and "minimum" in node:
        return f"{node['minimum']} … {node['maximum']}" if "maximum" in node else f"from {node['minimum']}"
    return _TYPES.get(kind, kind)


def _meaning(node: dict[str, Any]) -> str:
    parts = [node.get("description", "")]
    if node.get("type") != "object":
        parts += [f"It {text}." for text in _messages(node) if text.startswith(OF_A_VALUE)]
    return " ".join(part for part in parts if part).replace("|", "\\|")


OF_A_VALUE = "must be "
"""Prefix of the message of a rule about one value: the page shows it beside its field."""


def _messages(node: dict[str, Any]) -> list[str]:
    return [rule["message"] for rule in node.get("x-kubernetes-validations", ())]


def _rules(root: dict[str, Any]) -> str:
    """Rules over several fields of one object, or entries of one list, as a list."""
    nodes = [("metadata", root)]
    for path, node, _ in _fields(root):
        nodes += [(path, node), *([(f"{path}[]", node["items"])] if "items" in node else [])]
    rules = [
        (path, text)
        for path, node in nodes
        for text in _messages(node)
        if node.get("type") == "object" or not text.startswith(OF_A_VALUE)
    ]
    elsewhere = ("cannot change while", "not for the job to set", "is not a field", "is required")
    return "".join(f"- `{path}`: {text}.\n" for path, text in rules if not any(part in text for part in elsewhere))
