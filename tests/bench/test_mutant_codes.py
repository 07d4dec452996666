"""Mutants of a loaded module: which functions get another code, and that what is alive then runs it."""

from __future__ import annotations

import functools
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
from functools import lru_cache

LIMIT = 5

def adder(a):
    def add(b):
        return a + b
    return add

@lru_cache
def doubled(a):
    return a % 7

class Price:
    FLOOR = 3

    @property
    def half(self):
        return 8 // 2

    @staticmethod
    def most(amounts, least=1):
        return max([amount for amount in amounts if amount > least])

    def some(self, amounts):
        return amounts is None and sum(amount for amount in amounts)
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
    functions: list[Any] = CODES["functions_of"](pairs, CODES["functions_below"](str(file.parent))) if pairs else []
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


def test_what_only_stands_behind_a_mutant_on_its_line_is_not_mutated(prices: ModuleType) -> None:
    """Tests are chosen by the innermost function that is: those that enter the sum would not be all."""
    assert mutate(prices, "is", "is not") == ["Price.some"]
    file = Path(str(prices.__file__))
    [mutant] = [each for each in SITES["mutants_of"](str(file), file.read_bytes()) if each.becomes == "is not"]
    assert [old.co_name for old, _ in CODES["mutated_codes"](file, mutant)] == ["some"]


def test_what_a_cache_keeps_is_forgotten(prices: ModuleType) -> None:
    of_no_function = functools.lru_cache(abs)
    assert of_no_function(-1) == 1
    prices.doubled(3)
    [cache] = CODES["caches_below"](str(Path(str(prices.__file__)).parent))
    cache.cache_clear()
    assert prices.doubled.cache_info().currsize == 0


@pytest.mark.parametrize(("was", "becomes"), [("5", "6"), ("3", "2"), ("1", "0")])
def test_constants_of_modules_and_classes_and_defaults_are_not_in_functions(
    prices: ModuleType, was: str, becomes: str
) -> None:
    assert mutate(prices, was, becomes) == []
