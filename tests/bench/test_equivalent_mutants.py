"""The list of equivalent mutants: each entry names a mutant that there is, once, with a reason."""

from __future__ import annotations

import runpy
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SITES = runpy.run_path(str(ROOT / "bench" / "parts" / "mutants" / "sites.py"))
ENTRIES = tomllib.loads((ROOT / "bench" / "parts" / "mutants" / "equivalent.toml").read_text())["mutant"]


def mutants(file: str) -> set[tuple[str, str, str]]:
    path = ROOT / file
    return {mutant.key for mutant in SITES["mutants_of"](file, path.read_bytes())} if path.exists() else set()


def test_every_entry_names_a_mutant_of_the_source_as_it_is() -> None:
    known = {file: mutants(file) for file in {entry["file"] for entry in ENTRIES}}
    keys = [(entry["file"], entry["line"], entry["mutated"]) for entry in ENTRIES]
    assert [key for key in keys if key not in known[key[0]]] == []


def test_no_mutant_is_listed_twice_and_each_has_a_sentence_of_why() -> None:
    keys = Counter((entry["file"], entry["line"], entry["mutated"]) for entry in ENTRIES)
    assert [key for key, number in keys.items() if number > 1] == []
    assert [entry for entry in ENTRIES if not entry["reason"].endswith(".") or len(entry["reason"].split()) < 4] == []
