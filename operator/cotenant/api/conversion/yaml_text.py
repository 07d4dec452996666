"""YAML text → documents, as kubectl and the API server read it. PyYAML reads some values differently.

Kubernetes reads YAML 1.1 as Go does: 1e3 is a number, 1:30 and 2026-01-01 are texts, 2.0 is a whole number, and a key
that occurs twice in an object is an error. For files only; the operator gets JSON.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from cotenant.api.conversion.yaml_mistakes import in_words
from cotenant.api.validation.problems import DocumentError, Problem


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """One document of a file, and the line on which it begins."""

    body: Any
    line: int
    node: yaml.Node | None = None
    """As parsed, with the position of every part."""

    def line_of(self, field: str) -> int:
        """Line of a field, given as problems name it, or of the deepest object around it that the text contains."""
        return _line_of(self.node, field, self.line)


LONGEST_NUMBER = 400
"""Digits. Python refuses to read whole numbers of more than some thousands."""


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  # PyYAML's own attribute

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                continue
            if not isinstance(key, yaml.ScalarNode):
                raise _refused("a key must be a text, not a list or an object", key)
            if key.value in seen:
                raise _refused(f"the key {key.value!r} appears twice", key)
            seen.add(key.value)
        made = super().construct_mapping(node, deep)
        return {key if isinstance(key, str) else _as_text(key): value for key, value in made.items()}


def _refused(message: str, node: yaml.Node) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, message, node.start_mark)


def _as_text(key: Any) -> str:
    """The key as text, because JSON has text keys only."""
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
    if len(digits) > LONGEST_NUMBER:
        raise _refused(f"{text[:20]}… is too large", node)
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


def _line_of(node: yaml.Node | None, field: str, line: int) -> int:
    if isinstance(node, yaml.SequenceNode) and (index := re.match(r"\[([0-9]{1,6})\]\.?", field)):
        inner = node.value[int(index[1])] if int(index[1]) < len(node.value) else None
        return _line_of(inner, field[index.end() :], inner.start_mark.line + 1) if inner is not None else line
    if isinstance(node, yaml.MappingNode):
        # The longest first, because a key may have dots in it.
        for key, value in sorted(node.value, key=lambda pair: -len(str(pair[0].value))):
            rest = field.removeprefix(str(key.value))
            if rest != field and (not rest or rest[0] in ".["):
                return _line_of(value, rest.removeprefix("."), key.start_mark.line + 1)
    return line


def _singly(body: Any, node: yaml.Node) -> Iterator[tuple[Any, yaml.Node | None]]:
    """Items of a List, as `kubectl get -o yaml` prints several objects; otherwise the document itself."""
    kind = body.get("kind") if isinstance(body, dict) else None
    if not isinstance(kind, str) or not kind.endswith("List") or not isinstance(body.get("items"), list):
        yield body, node
        return
    nodes = next((value for key, value in getattr(node, "value", ()) if key.value == "items"), None)
    places = nodes.value if isinstance(nodes, yaml.SequenceNode) else [None] * len(body["items"])
    yield from zip(body["items"], places, strict=False)


def _check_is_a_tree(node: yaml.Node, above: frozenset[int], seen: set[int]) -> None:
    """Refuse an object that contains itself by an alias, which JSON cannot express."""
    if id(node) in above:
        raise _refused("the alias is inside of what it stands for", node)
    if id(node) in seen or not isinstance(node, yaml.CollectionNode):
        return
    seen.add(id(node))
    inside = (inner for entry in node.value for inner in (entry if isinstance(entry, tuple) else (entry,)))
    for inner in inside:
        _check_is_a_tree(inner, above | {id(node)}, seen)


def read_documents(text: str, where: str = "") -> Iterator[YamlDocument]:
    """Every document that is not empty, and every item of a List. Raises `DocumentError` with the line if the text is
    not YAML.
    """
    loader = _Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is None:
                continue
            _check_is_a_tree(node, frozenset(), set())
            body = loader.construct_document(node)
            if body is not None:
                line = node.start_mark.line + 1
                yield from (YamlDocument(one, line, inner) for one, inner in _singly(body, node))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        lines = text.splitlines()
        wrong = lines[mark.line] if mark is not None and mark.line < len(lines) else ""
        message = in_words(error.problem or "is not YAML", wrong)
        raise DocumentError([Problem("", message, mark.line + 1 if mark is not None else 1)], where) from None
    except RecursionError:
        raise DocumentError([Problem("", "lists and objects are nested too deep", 1)], where) from None
    except yaml.YAMLError as error:
        raise DocumentError([Problem("", f"is not YAML: {error}")], where) from None
    finally:
        loader.dispose()
