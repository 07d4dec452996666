"""References in a template: the parser names those without a target, and suggests the right one."""

from __future__ import annotations

import pytest

from cotenant.api.resources.sweeps.parameters import Parameter
from cotenant.api.resources.sweeps.references import is_known, substituted, unknown_reference

PARAMETERS = [Parameter.model_validate({"name": name, "choices": ["a"]}) for name in ("lr", "batch_size")]
THERE_ARE = "there are $(params.lr), $(params.batch_size), $(trial.number), $(trial.seed)"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("--lr=$(params.lr)$(params.batch_size)$(trial.seed)", ""),
        ("$(date) ${params.lr} $(params) $params.lr", ""),
        ("$(params.batchsize)", "$(params.batchsize) names no parameter; write $(params.batch_size)"),
        ("$(params.lr) $(params.rl)", "$(params.rl) names no parameter; write $(params.lr)"),
        ("$(params.momentum)", f"$(params.momentum) names no parameter; {THERE_ARE}"),
        ("$(trial.nummer)", "$(trial.nummer) names no parameter; write $(trial.number)"),
        ("$(params.lr", "$(params.lr names no parameter; write $(params.lr)"),
    ],
)
def test_what_names_nothing_is_named(text: str, said: str) -> None:
    assert unknown_reference(text, PARAMETERS) == said
    assert is_known(text, PARAMETERS) == (not said)


def test_a_value_is_put_in_once_and_not_looked_through() -> None:
    assert substituted("$(params.lr)+$(params.lr)", {"$(params.lr)": "$(trial.seed)"}) == "$(trial.seed)+$(trial.seed)"
