"""bench/parts/mutants/sites.py run as the file that it is: a source of a few lines, and all of its mutants."""

from __future__ import annotations

import ast
import runpy
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

SITES = runpy.run_path(str(Path(__file__).resolve().parents[2] / "bench" / "parts" / "mutants" / "sites.py"))

PRICES = '''"""Prices, 2 of them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    LIMIT = 1 + 1


def price(amount: int, cheapest: bool = True) -> int:
    """At least 1."""
    return min(amount, 7) if not cheapest else amount - 1  # 5 > 4
'''


def mutants_of(file: str, source: bytes) -> list[Any]:
    found: list[Any] = SITES["mutants_of"](file, source)
    return found


def changed(source: str) -> list[str]:
    """The lines as the mutants of a source have them."""
    return [mutant.mutated for mutant in mutants_of("a.py", source.encode())]


@pytest.mark.parametrize(
    ("source", "mutants"),
    [
        ("a < b", ["a <= b", "a >= b"]),
        ("a <= b", ["a < b", "a > b"]),
        ("a > b", ["a <= b", "a >= b"]),
        ("a >= b", ["a < b", "a > b"]),
        ("a == b", ["a != b"]),
        ("a != b", ["a == b"]),
        ("a is b", ["a is not b"]),
        ("a is  not b", ["a is b"]),
        ("a in b", ["a not in b"]),
        ("a not in b", ["a in b"]),
        ("a < b == c", ["a <= b == c", "a >= b == c", "a < b != c"]),
        ("a and b or c", ["a or b or c", "a and b and c"]),
        ("a and b and c", ["a or b and c", "a and b or c"]),
        ("not a", ["a"]),
        ("a + b", ["a - b"]),
        ("a - b", ["a + b"]),
        ("a * b", ["a // b"]),
        ("a // b", ["a * b"]),
        ("a / b", ["a * b"]),
        ("a += b", ["a -= b"]),
        ("a -= b", ["a += b"]),
        ("min(a)", ["max(a)"]),
        ("max(a)", ["min(a)"]),
        ("any(a)", ["all(a)"]),
        ("all(a)", ["any(a)"]),
        ("True", ["False"]),
        ("False", ["True"]),
        ("7", ["6", "8"]),
        ("(a) + (b)", ["(a) - (b)"]),
        ("(a or b) + c", ["(a and b) + c", "(a or b) - c"]),
    ],
)
def test_an_expression_is_changed_into_its_neighbours(source: str, mutants: list[str]) -> None:
    assert sorted(changed(source)) == sorted(mutants)


@pytest.mark.parametrize(
    "source",
    [
        "a",
        "1.5",
        "'7'",
        "None",
        "'a' + b",
        "b + 'a'",
        "a + 'b' + c",
        "f'{a}' + b",
        "a += 'b'",
        "a % b",
        "a ** b",
        "a.min(b)",
        "f'{a:>8}'",
        "zip(a, b, strict=True)",
        "a: list[1]",
        "def f(a: b[1]) -> c[2]: ...",
        "@f(1)\ndef g(): ...",
        "if TYPE_CHECKING:\n    a = 1",
        '"""1 < 2"""',
    ],
)
def test_texts_annotations_and_what_only_type_checkers_read_are_left_alone(source: str) -> None:
    assert changed(source) == []


def test_the_mutants_of_a_file_come_in_the_order_of_its_text() -> None:
    found = mutants_of("prices.py", PRICES.encode())
    assert [(mutant.line_number, mutant.was, mutant.becomes) for mutant in found] == [
        (9, "True", "False"),
        (11, "min", "max"),
        (11, "7", "6"),
        (11, "7", "8"),
        (11, "not ", ""),
        (11, "-", "+"),
        (11, "1", "0"),
        (11, "1", "2"),
    ]
    assert all(one.start <= other.start for one, other in pairwise(found))


def test_a_mutant_differs_in_its_one_place_and_can_be_compiled() -> None:
    source = PRICES.encode()
    for mutant in mutants_of("prices.py", source):
        applied = mutant.applied(source)
        assert applied == source[: mutant.start] + mutant.becomes.encode() + source[mutant.end :]
        assert source[mutant.start : mutant.end].decode() == mutant.was
        assert ast.dump(ast.parse(applied)) != ast.dump(ast.parse(source))
        assert applied.splitlines()[mutant.line_number - 1].decode().strip() == mutant.mutated


def test_offsets_count_bytes_where_a_line_has_other_letters() -> None:
    (mutant,) = mutants_of("a.py", "x = 'é…', a == b\n".encode())
    assert (mutant.line, mutant.mutated) == ("x = 'é…', a == b", "x = 'é…', a != b")


def test_an_operator_on_the_next_line_is_found_and_only_its_line_is_shown() -> None:
    (mutant,) = mutants_of("a.py", b"x = (\n    a\n    + b  # - c\n)")
    assert (mutant.line_number, mutant.line, mutant.mutated) == (3, "+ b  # - c", "- b  # - c")


def test_the_last_line_may_have_no_end() -> None:
    assert changed("a = b\nc = a < b") == ["c = a <= b", "c = a >= b"]


def test_a_mutant_is_known_by_its_lines_wherever_they_stand() -> None:
    (one,), (other,) = mutants_of("a.py", b"a == b"), mutants_of("a.py", b"\n\n    \nif c:\n    a == b\n")
    assert (one.key, one.start == other.start) == (other.key, False)
