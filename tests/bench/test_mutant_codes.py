"""Mutants of a loaded module: which functions get another code, and that what is alive then runs it."""

from __future__ import annotations

import importlib.util
import runpy
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PARTS = Path(__file__).resolve().parents[2] / "bench" / "parts" / "mutants"
CODES = runpy.run_path(str(PARTS / "codes.py"))
SITES = runpy.run_path(str(PARTS / "sites.py"))

PRICES = """
LIMIT = 5

def adder(a):
    def add(b):
        return a + b
    return add

class Price:
    FLOOR = 3

    @property
    def half(self):
        return 8 // 2

    @staticmethod
    def most(amounts, least=1):
        return max([amount for amount in amounts if amount > least])
"""


@pytest.fixture
def prices(tmp_path: Path) -> ModuleType:
    file = tmp_path / "prices.py"
    file.write_text(PRICES)
    spec = importlib.util.spec_from_file_location("prices", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def mutate(module: ModuleType, was: str, becomes: str) -> list[str]:
    """Gives the functions that are alive the code of the mutant with these texts; their names."""
    file = Path(str(module.__file__))
    [mutant] = [
        each for each in SITES["mutants_of"](str(file), file.read_bytes()) if (each.was, each.becomes) == (was, becomes)
    ]
    pairs = CODES["mutated_codes"](file, mutant)
    functions: list[Any] = CODES["functions_of"](pairs) if pairs else []
    for function, code in functions:
        function.__code__ = code
    return sorted(function.__qualname__ for function, _ in functions)


def test_a_closure_that_is_alive_and_one_that_is_made_later_have_the_mutated_code(prices: ModuleType) -> None:
    alive = prices.adder(7)
    assert mutate(prices, "+", "-") == ["adder", "adder.<locals>.add"]
    assert [alive(2), prices.adder(7)(2)] == [5, 5]


def test_properties_and_what_runs_inside_a_comprehension_are_mutated(prices: ModuleType) -> None:
    assert mutate(prices, "//", "*") == ["Price.half"]
    assert mutate(prices, ">", ">=") == ["Price.most"]
    assert [prices.Price().half, prices.Price.most([1])] == [16, 1]


@pytest.mark.parametrize(("was", "becomes"), [("5", "6"), ("3", "2"), ("1", "0")])
def test_constants_of_modules_and_classes_and_defaults_are_not_in_functions(
    prices: ModuleType, was: str, becomes: str
) -> None:
    assert mutate(prices, was, becomes) == []
