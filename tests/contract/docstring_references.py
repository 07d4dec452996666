"""Reports names in backticks that exist nowhere: in docstrings, comments, design notes, pages and CONTRIBUTING.md.

A docstring that names a module, class or function is a promise; a rename breaks it in silence. What is looked up:

- a path or file (`bench/chaos/pods.py`, `spec.json` in a string of the code) among the files of the repository;
- a dotted name (`ClusterState.assume`, `cotenant.contract`) from module or class to member, or as a field of the API;
- a class, constant or field (`Kube`, `memoryFraction`), a function with brackets, a plain word
  among what its own file uses, what its room defines, the modules of its tree, and the API's fields and values;
- `make crds`, `python -m cotenant.cli`, `cotenant validate`: the target, the module, the verb.

Pages for tenants and administrators may name what is theirs: a plain lower-case word on one is not looked up; metrics
are, among the strings of the code.

Commands of others, formulas and texts with spaces are left alone. Words that belong to others (Kubernetes, torch) are
listed in `vocabulary.toml` with the reason.

    python -m tests.contract.docstring_references
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.contract.python_names import Names, names_of

ROOT = Path(__file__).resolve().parents[2]
TREES = ("operator", "worker", "local", "bench", "tests", "docs")
NOTES = ("docs/design/*.md", "CONTRIBUTING.md")
PAGES = ("docs/*.md", "README.md")
VOCABULARY = Path(__file__).with_name("vocabulary.toml")
TICKED = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
METRIC = re.compile(r"cotenant_(?!worker|agent\b|agent\.|local|shim)[a-z_]+")
NAME = re.compile(r"[A-Za-z_]\w*")
DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
CALL = re.compile(r"\.?([A-Za-z_][\w.]*)\(.*\)")
COMMAND = re.compile(r"(?:.* )?(?:python3? -m ([\w.]+)|python3? ([\w/]+\.py)|make ([a-z-]+)|cotenant ([a-z]+))(?: .*)?")
FILE = re.compile(
    r"[\w./-]*\w\.(?:py|md|toml|svg|sh|go|tpl)|(?:operator|worker|local|bench|tests|docs|crds|charts)/[\w./-]*"
)


@dataclass(frozen=True)
class Reference:
    """A text in backticks and where it stands."""

    path: str
    line: int
    text: str


class House:
    """All that exists: files, modules with their names, fields and values of the API, words of others."""

    def __init__(self, root: Path) -> None:
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"], cwd=root, check=True, capture_output=True, text=True
        )
        self.files = [file for file in listed.stdout.splitlines() if (root / file).is_file()]
        self.names: dict[str, Names] = {}
        self.references: list[Reference] = []
        self.written: set[str] = set()
        """Every word of the code, those in its strings too: metrics, reasons, fields of documents."""
        for file in self.files:
            if file.endswith(".py") and file.startswith(TREES):
                source = (root / file).read_text()
                tree = ast.parse(source)
                self.names[file] = names_of(file, tree)
                self.references += written_in(file, source, tree)
                self.written |= set(NAME.findall(source))
        for pattern in (*NOTES, *PAGES):
            for note in sorted(root.glob(pattern)):
                lines = enumerate(note.read_text().splitlines(), 1)
                path = note.relative_to(root).as_posix()
                self.references += [Reference(path, at, text) for at, line in lines for text in TICKED.findall(line)]
        self.words = vocabulary(root)
        self.targets = set(re.findall(r"^([a-z-]+):", (root / "Makefile").read_text(), re.MULTILINE))
        self.everything = self.words.union(*(each.used | each.defined for each in self.names.values()))
        self._rooms: dict[str, frozenset[str]] = {}

    def room(self, path: str) -> frozenset[str]:
        """What the files of a room may name plainly: the room's definitions, its tree's modules, the API's words.

        Tests, benchmarks and notes look at the whole product: its definitions and modules.
        """
        room, product = room_of(path), path.startswith(("operator/", "worker/", "local/"))
        if room not in self._rooms:
            known = set(self.words)
            for names in self.names.values():
                of_product = names.path.startswith(("operator/", "worker/", "local/"))
                if room_of(names.path) == room or (of_product and (not product or is_shared(names.path))):
                    known |= names.top | names.members.keys()
                if tree_of(names.path) == tree_of(path) or (of_product and not product):
                    known |= set(names.module.split("."))
            self._rooms[room] = frozenset(known)
        return self._rooms[room]

    def exists(self, reference: Reference) -> bool:
        """Whether what is named is there; True for texts that are no names."""
        text = reference.text.strip()
        if command := COMMAND.fullmatch(text):
            module, script, target, verb = command.groups()
            return (
                (
                    module is None
                    or not module.startswith(("cotenant", "tests", "bench", "local"))
                    or self._module(module)
                )
                and (script is None or "/" not in script or self._file(script))
                and (target is None or target in self.targets)
                and (verb is None or verb in self.words)
            )
        if call := CALL.fullmatch(text):
            of_something, text = text.startswith("."), call.group(1)
            if of_something:
                return text in self.everything
        if METRIC.fullmatch(text):
            return bool({text, re.sub("_(total|bucket|sum|count)$", "", text)} & self.written)
        if FILE.fullmatch(text):
            return self._file(text) or text in self.everything
        if text.endswith(".k8s.io"):
            return True
        if DOTTED.fullmatch(text):
            return self._dotted(text, reference.path)
        if not NAME.fullmatch(text):
            return True
        if is_page(reference.path):
            return (
                (text.islower() and "_" not in text)
                or text in self.everything
                or bool({text, as_written(text)} & self.written)
            )
        own = self.names.get(reference.path)
        if text in self.room(reference.path) or (own is not None and text in own.used):
            return True
        return text != text.lower() and text in self.everything

    def _file(self, text: str) -> bool:
        """Whether a file, or a folder, ends in this path."""
        folder = text.rstrip("/") + "/"
        return any(f"/{file}".endswith(f"/{text}") or f"/{folder}" in f"/{file}" for file in self.files)

    def _module(self, module: str) -> bool:
        return any(names.module == module for names in self.names.values())

    def _dotted(self, text: str, path: str) -> bool:
        first, *rest = parts = text.split(".")
        if text in self.everything or set(parts) <= self.words or first in sys.stdlib_module_names or first in OTHERS:
            return True
        if is_page(path) and first in self.written and rest[-1] in self.written:
            return True
        own = self.names.get(path)
        if own is not None and first in own.used and first == first.lower() and rest[-1] in self.everything:
            return True
        return any(self._member(names, parts) for names in self.names.values())

    def _member(self, names: Names, parts: list[str]) -> bool:
        """Whether the parts lead from this module, or from a class of it, to something that is defined."""
        for length in range(len(parts), 0, -1):
            prefix, rest = ".".join(parts[:length]), parts[length:]
            if names.module == prefix or names.module.endswith(f".{prefix}"):
                return not rest or names.has(rest)
        return parts[0] in names.members and names.has(parts)


def tree_of(path: str) -> str:
    return path.partition("/")[0]


def room_of(path: str) -> str:
    """The folder whose files share their words: `operator/cotenant/core`, `worker/cotenant_agent`, `tests/core`."""
    parts = path.split("/")
    return "/".join(parts[: {"operator": 3, "bench": 1, "docs": 1}.get(parts[0], 2)])


def is_page(path: str) -> bool:
    """Whether a file is for tenants and administrators, who have words of their own."""
    return path == "README.md" or (path.startswith("docs/") and path.count("/") == 1)


def as_written(field: str) -> str:
    """Name in Python of a field of a document: `lastCheckpoint` has an underscore there."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", field).lower()


def is_shared(path: str) -> bool:
    """Whether a file stands above the rooms: the contract between operator and worker, and the names."""
    return path in {"operator/cotenant/contract.py", "operator/cotenant/names.py"}


def written_in(path: str, source: str, tree: ast.Module) -> Iterator[Reference]:
    """The references of docstrings and comments."""
    lines = source.encode().splitlines()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            for at, line in enumerate(node.value.value.splitlines(), node.lineno):
                yield from (Reference(path, at, text) for text in TICKED.findall(line))
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
            for at in range(first, last + 1):
                start = node.col_offset if at == first else 0
                end = (node.end_col_offset or 0) if at == last else len(lines[at])
                lines[at] = lines[at][:start] + b" " * (end - start) + lines[at][end:]
    for at, code in enumerate(lines, 1):
        if b"# " in code and b"`" in code:
            yield from (Reference(path, at, text) for text in TICKED.findall(code.decode().partition("# ")[2]))


def vocabulary(root: Path) -> frozenset[str]:
    """Words that need no definition here: of Python, of the API's documents, of the chart, of others by the list."""
    words = {*keyword.kwlist, *dir(builtins), *sys.stdlib_module_names}
    documents = [*root.glob("crds/*.yaml"), *root.glob("charts/*/values.yaml")]
    for document in documents:
        words |= set(_words(yaml.load(document.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))))
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    words |= set(project["optional-dependencies"]) | OTHERS
    for group in project.get("entry-points", {}).values():
        words |= set(group)
    for source in root.glob("*/*/cli/**/*.py"):
        words |= set(re.findall(r"(?:add_parser\(|cluster_verb\(\s*\w+,)\s*\"([a-z-]+)\"", source.read_text()))
    for group in tomllib.loads(VOCABULARY.read_text())["words"]:
        words |= set(group["names"])
    return frozenset(words)


def _words(document: object) -> Iterator[str]:
    """Keys of a document, and its values of one word: properties and enums of a schema."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield str(key)
            yield from _words(value)
    elif isinstance(document, list):
        for value in document:
            yield from _words(value)
    elif isinstance(document, str) and NAME.fullmatch(document):
        yield document


OTHERS = frozenset(
    {"torch", "ray", "numpy", "np", "kopf", "jax", "kubernetes", "pydantic", "tensorflow", "keras", "nnx", "pynvml"}
)
"""Libraries whose names are not looked up."""


def main() -> int:
    """Prints each reference to something that is not there; exit code 1 where there is one."""
    house = House(ROOT)
    stale = [each for each in house.references if not house.exists(each)]
    for each in stale:
        print(f"{each.path}:{each.line}: `{each.text}` names nothing that exists")
    if stale:
        print(
            f"{len(stale)} stale references; words of others belong into {VOCABULARY.relative_to(ROOT)}, with a reason"
        )
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main())
