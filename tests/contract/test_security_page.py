"""docs/security.md names a test for each promise: they are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)))


def test_the_page_names_tests() -> None:
    assert len(NAMED) > 20


@pytest.mark.parametrize(("file", "test"), NAMED, ids=lambda part: part or "the whole file")
def test_each_named_test_is_there(file: str, test: str) -> None:
    path = ROOT / file
    assert path.is_file(), f"docs/security.md names {file}"
    assert re.search(rf"^\s*(?:async )?def {test or 'test_'}\w*\(", path.read_text(), re.MULTILINE), f"{file}::{test}"


@pytest.mark.parametrize("named", sorted(set(re.findall(r"`((?:operator|charts|worker)/[\w/.*-]+)`", PAGE))))
def test_each_named_file_is_there(named: str) -> None:
    assert list(ROOT.glob(named)), f"docs/security.md names {named}"
