"""The check of names in backticks finds what a rename leaves behind, and leaves texts alone that are no names."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

from tests.contract.docstring_references import House, Reference, written_in

HERE = "operator/cotenant/core/actions.py"
SOURCES = {
    HERE: "from cotenant.core.books import Books\ndef evict(books: Books, spare: int) -> None: ...\n",
    "operator/cotenant/core/books.py": "class Books:\n  now: int = 0\n  def trial(self):\n    self.kept = 1\n",
    "operator/cotenant/api/queues.py": "LIMIT_S = 3\ndef parse() -> str:\n    return 'hangTimeout'\n",
    "operator/cotenant/names.py": "GROUP = 'cotenant.dev'\n",
    "tests/core/test_books.py": "",
    "crds/queues.yaml": "properties: {spec: {properties: {weight: {type: integer}}}}\n",
    "operator/cotenant/metrics.py": "last_checkpoint = 'cotenant_jobs_pending', 'cotenant_cycle_seconds', 'Throttled'",
    "docs/tenants.md": "`weight`\n",
    "docs/design/0001.md": "`Books`\n",
    "README.md": "`make crds`\n",
    "Makefile": "crds: setup\n",
    "pyproject.toml": "[project.optional-dependencies]\nlocal = []\n",
}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    root = tmp_path_factory.mktemp("house")
    for path, text in SOURCES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return House(Path(root))


@pytest.mark.parametrize(
    "text",
    [
        *("books", "queues", "Books", "evict", "spare", "LIMIT_S", "hangTimeout", "weight", "None", "local", "torch"),
        *("Books.trial", "Books.kept", "Books.now", "books.Books", "cotenant.core.books", "books.Books.trial"),
        *("spec.weight", "os.fork", "evict(books)", "Books.trial()", "queues.parse()", "torch.save(…)"),
        *("operator/cotenant/core", "tests/core/test_books.py", "books.py", "core/books.py", "operator/"),
        *("make crds", "python -m cotenant.core.books", "PYTHONPATH=. python3 tests/core/test_books.py --fast"),
        *("max(0, a − b)", "kubectl delete pod", "/etc", "-E", "sum of all x", "..data", "nvidia.com/gpu=0"),
    ],
)
def test_what_exists_or_is_no_name_passes(house: House, text: str) -> None:
    assert house.exists(Reference(HERE, 1, text))


@pytest.mark.parametrize(
    "text",
    [
        *("mirror", "trial", "parse", "Standing", "LIMIT", "raiseLimit"),
        *("Books.rolled", "books.Standing", "raynode.node_flags", "cotenant.core.mirror", "spec.heaviness"),
        *("steps.next_step(situation)", "evicted(books)", "Books.undo()"),
        *("operator/cotenant/core/mirror.py", "mirror.py", "operator/cotenant/world", "bench/pod_writer"),
        *("make bread", "python -m cotenant.world", "python tests/core/test_mirror.py"),
    ],
)
def test_what_a_rename_left_behind_is_reported(house: House, text: str) -> None:
    assert not house.exists(Reference(HERE, 1, text))


@pytest.mark.parametrize(
    ("text", "known"),
    [
        *(
            (text, True)
            for text in ("prod", "edit", "hangTimeout", "LIMIT_S", "spec.weight", "leases.coordination.k8s.io")
        ),
        *(
            (text, True)
            for text in ("cotenant_jobs_pending", "cotenant_cycle_seconds_bucket", "lastCheckpoint", "Throttled")
        ),
        *((text, False) for text in ("raise_limit", "raiseLimit", "Standing", "spec.heaviness", "books/mirror.py")),
        *((text, False) for text in ("cotenant_jobs_lost", "make bread", "Books.rolled")),
    ],
)
def test_a_page_may_have_plain_words_of_its_readers_but_names_only_what_is_there(
    house: House, text: str, known: bool
) -> None:
    assert house.exists(Reference("docs/tenants.md", 1, text)) is known


def test_pages_notes_and_the_readme_are_read(house: House) -> None:
    assert [(each.path, each.text) for each in house.references] == [
        ("docs/design/0001.md", "Books"),
        ("docs/tenants.md", "weight"),
        ("README.md", "make crds"),
    ]


def test_references_are_read_from_docstrings_of_anything_and_from_comments_not_from_other_strings() -> None:
    source = (
        'X = 1  # not `a`\n"""Beside\n`b`."""\nY = "`c` # `d`"\nZ = """\n# `e`\n"""\ndef f():\n    """See `g`."""\n'
    )
    found = [(each.line, each.text) for each in written_in("x.py", source, ast.parse(source))]
    assert sorted(found) == [(1, "a"), (3, "b"), (9, "g")]
