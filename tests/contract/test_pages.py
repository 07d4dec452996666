"""The pages: every link leads somewhere, every page is in the navigation of the site."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SITE = sorted(DOCS.rglob("*.md"))
PAGES = [*SITE, ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]


class _Reader(yaml.SafeLoader):
    """YAML of mkdocs, whose tags name functions of Python that are not called here."""


_Reader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


def prose(text: str) -> str:
    """The text of a page without blocks of code."""
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(text: str) -> list[str]:
    """The anchor of each heading, as the forge and the site make it."""
    headings = re.findall(r"^#+ +(.*?) *$", prose(text), re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain]


def links(text: str) -> list[str]:
    """Targets within the project."""
    found = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", prose(text)))
    return [target for target in found if not re.match(r"[a-z]+:", target)]


def broken(page: Path, text: str) -> Iterator[str]:
    for target in links(text):
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists():
            yield f"{target}: there is no such file"
        elif anchor and anchors(text if there == page else there.read_text()).count(anchor) != 1:
            yield f"{target}: not one heading has this anchor"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert list(broken(page, page.read_text())) == []


@pytest.mark.parametrize("page", SITE, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_of_the_site_links_to_nothing_outside_of_it(page: Path) -> None:
    targets = [(page.parent / link.partition("#")[0]).resolve() for link in links(page.read_text())]
    assert [target for target in targets if not target.is_relative_to(DOCS)] == []


@pytest.mark.parametrize(
    ("link", "finding"),
    [
        ("[a](b.md)", ["b.md: there is no such file"]),
        ("[a](#b)", ["#b: not one heading has this anchor"]),
        ("[a](tenants.md#b)", ["tenants.md#b: not one heading has this anchor"]),
        ("[a](#twice)\n# Twice\n# Twice", ["#twice: not one heading has this anchor"]),
        ("[a](#a-share-of-a-gpu)\n## A `share` of a GPU", []),
        ("`[a](b.md)` [c](https://example.com)", []),
    ],
)
def test_a_link_that_leads_nowhere_is_found(link: str, finding: list[str]) -> None:
    assert list(broken(DOCS / "index.md", link)) == finding


def missing(text: str) -> list[str]:
    """Ends of sentences that announce something which does not follow: a heading or the end of the page does."""
    whole = re.sub(r"^```.*?^```", "`", text, flags=re.DOTALL | re.MULTILINE)
    lines = [line for line in whole.splitlines() if line.strip()]
    return [
        line[-60:]
        for line, after in zip(lines, [*lines[1:], "#"], strict=True)
        if line.endswith(":") and after.startswith("#")
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_sentence_announces_follows_it(page: Path) -> None:
    assert missing(page.read_text()) == []


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("This command lists them:\n\n## Next\n", ["This command lists them:"]),
        ("This command lists them:", ["This command lists them:"]),
        ("This command lists them:\n\n```sh\n# all\n```\n## Next\n", []),
        ("Two kinds:\n\n- one\n", []),
    ],
)
def test_a_list_that_was_lost_is_found(text: str, finding: list[str]) -> None:
    assert missing(text) == finding


def test_every_page_is_in_the_navigation_once() -> None:
    def named(entry: Any) -> Iterator[str]:
        if isinstance(entry, str):
            yield entry
        else:
            for one in entry.values() if isinstance(entry, dict) else entry:
                yield from named(one)

    navigation = yaml.load((ROOT / "mkdocs.yml").read_text(), _Reader)["nav"]
    assert sorted(named(navigation)) == [str(page.relative_to(DOCS)) for page in SITE]


def test_the_readme_links_to_every_page_but_those_of_design() -> None:
    linked = set(links((ROOT / "README.md").read_text()))
    assert {f"docs/{page.name}" for page in DOCS.glob("*.md")} - {"docs/index.md"} - linked == set()
