"""The names of a Python file: what it defines at its top, what its classes have, and every name that its code uses."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

LONGEST_KEY = 200
"""A string constant of at most this many characters and without a space may be a key, a field, a file or a flag."""


@dataclass
class Names:
    """The names of one file: what it defines, and all that stands in its code."""

    path: str
    top: set[str] = field(default_factory=set)
    members: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    heirs: set[str] = field(default_factory=set)
    """Classes with bases: they may have members that do not stand in them."""
    used: set[str] = field(default_factory=set)

    @property
    def module(self) -> str:
        """The dotted name without the source root; a package's is that of its `__init__.py`."""
        parts = list(Path(self.path).with_suffix("").parts)
        parts = parts[1:] if parts[0] in {"operator", "worker", "local"} else parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def defined(self) -> set[str]:
        return self.top.union(*self.members.values())

    def has(self, parts: list[str]) -> bool:
        """Whether a name of this module, or a class and its member, is defined."""
        first, *rest = parts
        if not rest:
            return first in self.defined
        known = first in self.top and first not in self.members  # an import or a value: not followed
        return known or first in self.heirs or rest[0] in self.members.get(first, ())


def names_of(path: str, tree: ast.Module) -> Names:
    """All names of a syntax tree, in one walk."""
    names = Names(path)
    for statement in tree.body:
        names.top |= _bound(statement)
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name, body=body, bases=bases):
                names.heirs |= {name} if bases else set()
                names.members[name] |= set().union(*map(_bound, body))
                names.members[name] |= set(filter(None, map(_own_attribute, ast.walk(node))))
                names.used.add(name)
            case ast.FunctionDef(name=word) | ast.AsyncFunctionDef(name=word) | ast.Name(id=word):
                names.used.add(word)
            case ast.Attribute(attr=word) | ast.arg(arg=word) | ast.keyword(arg=str() as word):
                names.used.add(word)
            case ast.alias(name=word, asname=other):
                names.used |= {*word.split("."), other or word}
            case ast.Constant(value=str() as text) if len(text) <= LONGEST_KEY:
                names.used.update(re.findall(r"[\w.-]+", text) if " " not in text else ())
    return names


def _own_attribute(node: ast.AST) -> str:
    """The attribute of `self` or `cls` that a node reads or sets, or nothing."""
    of_self = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}
    return node.attr if of_self and isinstance(node, ast.Attribute) else ""


def _bound(statement: ast.stmt) -> set[str]:
    """The names that a statement of a module or class body binds."""
    match statement:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return {name}
        case ast.Assign(targets=targets):
            return {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return {each.asname or each.name.partition(".")[0] for each in names}
        case ast.If(body=body, orelse=orelse) | ast.Try(body=body, orelse=orelse):
            return set().union(*map(_bound, [*body, *orelse]))
    return set()
