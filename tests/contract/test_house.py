"""The house of the code: doors with a docstring, folders that fit on a page, one class for one name."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TREES = ("operator", "worker", "local")
AREAS = (*TREES, "bench", "tests")
MOST_ENTRIES = 16
GENERATED = {"__pycache__", "results"}
USUAL_NAMES = {"__init__.py", "__main__.py", "conftest.py"}
MOST_OF_A_NAME = 2


def folders(area: str) -> Iterator[Path]:
    """Folders of an area that hold Python modules, outermost first."""
    for folder in [ROOT / area, *sorted((ROOT / area).rglob("*"))]:
        if folder.is_dir() and not GENERATED & set(folder.parts) and any(folder.glob("*.py")):
            yield folder


def entries(folder: Path) -> list[str]:
    """Names in a folder that a reader sees, its door left out."""
    left_out = GENERATED | {"__init__.py"}
    return sorted(path.name for path in folder.iterdir() if path.name not in left_out and path.name[0] != ".")


def classes(folder: Path) -> Iterator[tuple[str, str]]:
    """(name, place) of every class that a module of the product defines at its top level."""
    for path in sorted(folder.rglob("*.py")):
        if "tests" in path.parts:
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                yield node.name, str(path.relative_to(ROOT))


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or ""


@pytest.mark.parametrize("area", AREAS)
def test_every_package_says_what_lives_in_it(area: str) -> None:
    doors = {path: ast.get_docstring(ast.parse(path.read_text())) for path in (ROOT / area).rglob("__init__.py")}
    assert [str(path.relative_to(ROOT)) for path, text in sorted(doors.items()) if not text or "TODO" in text] == []


@pytest.mark.parametrize("area", AREAS)
def test_no_folder_holds_more_than_a_reader_takes_in(area: str) -> None:
    sizes = {str(folder.relative_to(ROOT)): len(entries(folder)) for folder in folders(area)}
    assert {folder: size for folder, size in sizes.items() if size > MOST_ENTRIES} == {}


@pytest.mark.parametrize("tree", TREES)
def test_one_name_is_one_class_in_a_tree(tree: str) -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for name, place in classes(ROOT / tree):
        places[name].append(place)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


@pytest.mark.parametrize("area", AREAS)
def test_the_name_of_a_file_says_what_it_is_about(area: str) -> None:
    """A name that three files of a tree have finds none of them. Tests are named after what they test."""
    places: dict[str, list[str]] = defaultdict(list)
    for folder in folders(area):
        for path in sorted(folder.glob("*.py")):
            if path.name not in USUAL_NAMES and not path.name.startswith("test_"):
                places[path.name].append(str(path.relative_to(ROOT)))
    assert {name: found for name, found in places.items() if len(found) > MOST_OF_A_NAME} == {}


def files_of_tests() -> list[Path]:
    return sorted([*(ROOT / "tests").rglob("*.py"), *(ROOT / "local" / "tests").rglob("*.py")])


def test_no_test_imports_a_benchmark() -> None:
    paths = files_of_tests()
    assert [
        str(path.relative_to(ROOT)) for path in paths for name in imported(path) if name.split(".")[0] == "bench"
    ] == []


def test_the_folder_of_the_operator_is_no_package() -> None:
    """A package would hide the standard library's `operator` if Python starts in the checkout."""
    assert not (ROOT / "operator" / "__init__.py").exists()


def test_what_starts_clusters_containers_or_ray_is_among_the_live_tests_and_says_so() -> None:
    """A look at the path tells fast tests from slow ones."""
    live, marked = (
        ROOT / "tests" / "live",
        re.compile(r"pytest\.mark\.(cluster|sandbox|ray|frameworks|containers|browser|s3|gpu)\b"),
    )
    paths = [path for path in files_of_tests() if path.name.startswith("test_")]
    misplaced = [path for path in paths if (live in path.parents) != bool(marked.search(path.read_text()))]
    assert [str(path.relative_to(ROOT)) for path in misplaced if path != Path(__file__)] == []


def test_no_plain_test_imports_a_live_one() -> None:
    paths = [path for path in files_of_tests() if ROOT / "tests" / "live" not in path.parents]
    assert [str(path.relative_to(ROOT)) for path in paths if any("tests.live" in name for name in imported(path))] == []
