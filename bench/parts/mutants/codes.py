"""A mutant of a module that is loaded: which of its functions get another code."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType

from bench.parts.mutants.sites import Mutant


def mutated_codes(file: Path, mutant: Mutant) -> list[tuple[CodeType, CodeType]]:
    """Pairs (original, mutated) of the codes of functions that differ, the innermost last. Empty where the change is
    not inside a function: in a module's constant, a class's body or the default of a parameter."""
    source = file.read_bytes()
    texts = source, mutant.applied(source)
    before, after = (compile(text, str(file), "exec", dont_inherit=True) for text in texts)
    if not _same_body(before, after):
        return []
    return [(old, new) for old, new in zip(_functions(before), _functions(after), strict=True) if old != new]


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


def _same_body(before: CodeType, after: CodeType) -> bool:
    """Whether what runs at import is the same, bodies of classes with it."""
    plain = [[repr(each) for each in code.co_consts if not isinstance(each, CodeType)] for code in (before, after)]
    classes = [[inner for inner in _inner(code) if not _is_function(inner)] for code in (before, after)]
    return (
        (before.co_code, before.co_names, plain[0]) == (after.co_code, after.co_names, plain[1])
        and len(classes[0]) == len(classes[1])
        and all(map(_same_body, *classes))
    )


def functions_of(pairs: Sequence[tuple[CodeType, CodeType]]) -> list[tuple[FunctionType, CodeType]]:
    """Every function that is alive and has one of the original codes, closures too, with its mutated code."""
    file = pairs[0][0].co_filename
    known = dict(pairs)
    alive = (each for each in gc.get_objects() if isinstance(each, FunctionType))
    return [
        (each, known[each.__code__]) for each in alive if each.__code__.co_filename == file and each.__code__ in known
    ]
