"""YAML text → documents, as kubectl and the API server read it, where PyYAML by itself reads something else.

Kubernetes reads YAML 1.1 as Go does: 1e3 is a number, 1:30 and 2026-01-01 are texts, 2.0 is a whole number, one key
twice in an object is an error. For files only: the operator gets JSON.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from cotenant.api.validation.errors import DocumentError, Problem


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """One document of a file, and the line on which it begins."""

    body: Any
    line: int


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  # PyYAML's own attribute

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                continue
            if key.value in seen:
                raise _refused(f"the key {key.value!r} appears twice", key)
            seen.add(key.value)
        made = super().construct_mapping(node, deep)
        return {key if isinstance(key, str) else _as_text(key): value for key, value in made.items()}


def _refused(message: str, node: yaml.Node) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, message, node.start_mark)


def _as_text(key: Any) -> str:
    """Key as JSON has it, which knows texts only."""
    return str(key).lower() if isinstance(key, bool) or key is None else str(key)


def _number(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> Any:
    text = str(loader.construct_scalar(node)).replace("_", "")
    if text.lstrip("+-").lower() in {".inf", ".nan"}:
        raise _refused(f"{text} is not a number that JSON has", node)
    value = float(text)
    if not math.isfinite(value):
        raise _refused(f"{text} is too large", node)
    return int(value) if value.is_integer() else value


def _whole(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> Any:
    text = str(loader.construct_scalar(node)).replace("_", "")
    sign = -1 if text.startswith("-") else 1
    digits = text.lstrip("+-")
    if re.fullmatch(r"0[0-7]+", digits):
        return sign * int(digits, 8)
    return sign * int(digits, 0)


for _tag, _grammar, _first in (
    ("bool", r"y|Y|yes|Yes|YES|on|On|ON|true|True|TRUE|n|N|no|No|NO|off|Off|OFF|false|False|FALSE", "yYnNtTfFoO"),
    ("int", r"[-+]?(?:0|[1-9][0-9_]*|0[0-7_]+|0o[0-7_]+|0b[01_]+|0x[0-9a-fA-F_]+)", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", "-+."),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("merge", r"<<", "<"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_grammar})\Z"), list(_first))
_Loader.add_constructor("tag:yaml.org,2002:int", _whole)
_Loader.add_constructor("tag:yaml.org,2002:float", _number)


def _bool(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> bool:
    return str(loader.construct_scalar(node)).lower() in {"y", "yes", "on", "true"}


_Loader.add_constructor("tag:yaml.org,2002:bool", _bool)


def _singly(body: Any) -> list[Any]:
    """Items of a List, as `kubectl get -o yaml` prints several objects; else the document itself."""
    is_list = isinstance(body, dict) and body.get("kind") == "List" and isinstance(body.get("items"), list)
    return list(body["items"]) if is_list else [body]


def read_documents(text: str, where: str = "") -> Iterator[YamlDocument]:
    """Every document that is not empty, every item of a List; `DocumentError` with the line where it is no YAML."""
    loader = _Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is None:
                continue
            body = loader.construct_document(node)
            if body is not None:
                yield from (YamlDocument(one, node.start_mark.line + 1) for one in _singly(body))
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise DocumentError([Problem("", f"{line}{error.problem or 'is not YAML'}")], where) from None
    except yaml.YAMLError as error:
        raise DocumentError([Problem("", f"is not YAML: {error}")], where) from None
    finally:
        loader.dispose()
