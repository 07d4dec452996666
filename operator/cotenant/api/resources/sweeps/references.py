"""References of a template to the values of its trial: valid ones, unknown ones, and parameters that reach no
program.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from cotenant.api.advice.near_names import nearest
from cotenant.api.resources.sweeps.parameters import Parameter
from cotenant.api.resources.sweeps.trial_template import TRIAL_NUMBER, TRIAL_SEED, TrialRuntime

STARTS: Final = ("$(params.", "$(trial.")
"""A text that begins so is a reference."""
_REFERENCE: Final = re.compile(r"\$\((?:params|trial)\.[^)]{0,64}\)?")
_SHOWN: Final = 8


def is_known(text: str, parameters: Sequence[Parameter]) -> bool:
    """True if every reference in the text names something, by the same rule as in the API server."""
    known = [one.reference for one in parameters] + [TRIAL_NUMBER, TRIAL_SEED]
    return sum(text.count(start) for start in STARTS) == sum(text.count(one) for one in known)


def first_unknown(texts: Iterable[str | None], parameters: Sequence[Parameter]) -> str:
    """The `unknown_reference` of the first text that has one."""
    found = (unknown_reference(text, parameters) for text in texts if text is not None)
    return next(filter(None, found), "$(params. and $(trial. are for references, which end with a bracket")


def unknown_reference(text: str, parameters: Sequence[Parameter]) -> str:
    """An unknown name in the text, with the name that was probably meant; empty if all are known."""
    known = [one.reference for one in parameters] + [TRIAL_NUMBER, TRIAL_SEED]
    wrong = next((found for found in _REFERENCE.findall(text) if found not in known), None)
    if wrong is None:
        return ""
    names = {one.removeprefix("$(").removesuffix(")"): one for one in known}
    near = nearest(wrong.removeprefix("$(").removesuffix(")"), names)
    if near is not None:
        return f"{wrong} names no parameter; write {names[near]}"
    return f"{wrong} names no parameter; there are {', '.join(known[:_SHOWN])}"


def substituted(text: str, values: Mapping[str, str]) -> str:
    """The text with values for its references. Values are not searched for references."""
    return _REFERENCE.sub(lambda found: values.get(found.group(), found.group()), text)


def unused(parameters: Iterable[Parameter], runtime: TrialRuntime) -> list[int]:
    """Indices of the parameters that reach the program neither by a variable nor by a reference."""
    texts = [text for _, text in runtime.texts]
    return [
        index
        for index, one in enumerate(parameters)
        if one.env is None and not any(one.reference in text for text in texts)
    ]
