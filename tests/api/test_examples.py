"""Every document in examples/, and every YAML block of the docs that is a whole document, is one that applies."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cotenant.api.conversion.decode import check
from cotenant.api.conversion.yaml_text import read_documents

if TYPE_CHECKING:
    pass

ROOT = Path(__file__).parents[2]


def texts() -> list[tuple[str, str]]:
    found = [(str(file.relative_to(ROOT)), file.read_text()) for file in sorted((ROOT / "examples").rglob("*.yaml"))]
    pages = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
    for page in pages:
        for number, block in enumerate(re.findall(r"(?ms)^```yaml\n(.*?)^```", page.read_text()), 1):
            if "apiVersion:" in block:
                found.append((f"{page.relative_to(ROOT)} block {number}", block))
    return found


def documents() -> list[tuple[str, dict[str, Any]]]:
    return [(f"{where}:{one.line}", one.body) for where, text in texts() for one in read_documents(text, where)]


EVERY = documents()


@pytest.mark.parametrize("body", [body for _, body in EVERY], ids=[where for where, _ in EVERY])
def test_what_we_show_is_valid(body: dict[str, Any]) -> None:
    checked = check(body)
    assert checked.problems == ()
