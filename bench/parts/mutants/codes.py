"""A mutant of a module that is loaded: which of its functions get another code."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from bench.parts.mutants.sites import Mutant

_CACHE = type(lru_cache(lambda: None))


def mutated_codes(file: Path, mutant: Mutant) -> list[tuple[CodeType, CodeType]]:
    """Pairs (original, mutated) of the codes of functions that differ, the innermost last. Empty where the change is
    not inside a function: in a module's constant, a class's body or the default of a parameter."""
    source = file.read_bytes()
    texts = source, mutant.applied(source)
    before, after = (compile(text, str(file), "exec", dont_inherit=True) for text in texts)
    if not _same_body(before, after):
        return []
    return [(old, new) for old, new in zip(_functions(before), _functions(after), strict=True) if not _same(old, new)]


def _inner(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def _is_function(code: CodeType) -> bool:
    return bool(code.co_flags & inspect.CO_NEWLOCALS)


def _functions(code: CodeType) -> Iterator[CodeType]:
    """All functions below a code, each before those inside it."""
    for inner in _inner(code):
        if _is_function(inner):
            yield inner
        yield from _functions(inner)


def _same(before: CodeType, after: CodeType) -> bool:
    """Whether both do the same. They are not equal where a mutant has moved the columns of what stands behind it."""
    inner = [_inner(code) for code in (before, after)]
    return _same_instructions(before, after) and len(inner[0]) == len(inner[1]) and all(map(_same, *inner))


def _same_instructions(before: CodeType, after: CodeType) -> bool:
    plain = [[repr(each) for each in code.co_consts if not isinstance(each, CodeType)] for code in (before, after)]
    return (before.co_code, before.co_names, plain[0]) == (after.co_code, after.co_names, plain[1])


def _same_body(before: CodeType, after: CodeType) -> bool:
    """Whether what runs at import is the same, bodies of classes with it."""
    classes = [[inner for inner in _inner(code) if not _is_function(inner)] for code in (before, after)]
    return _same_instructions(before, after) and len(classes[0]) == len(classes[1]) and all(map(_same_body, *classes))


def functions_below(folder: str) -> dict[str, list[FunctionType]]:
    """File → every function of it that is alive, closures too, of the files whose path begins so."""
    found: dict[str, list[FunctionType]] = {}
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename.startswith(folder):
            found.setdefault(each.__code__.co_filename, []).append(each)
    return found


def caches_below(folder: str) -> list[Any]:
    """Caches (`functools.lru_cache`) of functions of these files. What is in them hides who calls the functions."""
    found = [each for each in gc.get_objects() if isinstance(each, _CACHE)]
    functions = [(each, each.__wrapped__) for each in found]
    return [
        each
        for each, function in functions
        if isinstance(function, FunctionType) and function.__code__.co_filename.startswith(folder)
    ]


def functions_of(
    pairs: Sequence[tuple[CodeType, CodeType]], alive: Mapping[str, Sequence[FunctionType]]
) -> list[tuple[FunctionType, CodeType]]:
    """Those of the functions (`functions_below`) that have one of the original codes, with the mutated code."""
    known = dict(pairs)
    own = alive.get(pairs[0][0].co_filename, ())
    return [(each, known[each.__code__]) for each in own if each.__code__ in known]
