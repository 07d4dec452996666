"""The TrainingJob of every trial: a spec as a tenant writes it, with references to the parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Final

from pydantic import Field

from cotenant.api.resources.job_spec.env_vars import EnvVar
from cotenant.api.resources.job_spec.runtime import Runtime
from cotenant.api.resources.trainingjobs import TrainingJobSpec
from cotenant.api.scalars.fields import keyed_by, passed_on
from cotenant.api.validation.rules import Model, Rule

TRIAL_NUMBER: Final = "$(trial.number)"
TRIAL_SEED: Final = "$(trial.seed)"
"""Differs for every trial and every member of an ensemble. A trial that is tried again has the same seed."""
MAX_WORD: Final = 2048
MAX_WORDS: Final = 64
"""Characters of one argument; number of arguments and of variables. The API server computes the cost of looking for
references from these maxima.
"""
MAX_CHECKPOINT_PATH: Final = 448
"""Leaves room for the trial's name at its end."""


class TrialRuntime(Runtime):
    """What runs. `$(params.<name>)`, `$(trial.number)` and `$(trial.seed)` stand for the values of the trial."""

    command: (
        Annotated[tuple[Annotated[str, *passed_on(MAX_WORD)], ...], Field(min_length=1, max_length=MAX_WORDS)] | None
    ) = None
    """A program that reads torchrun's variables (RANK, WORLD_SIZE, MASTER_ADDR …), run once per worker, unchanged."""
    args: Annotated[tuple[Annotated[str, *passed_on(MAX_WORD)], ...], Field(max_length=MAX_WORDS)] | None = None
    """Arguments of `command`, after its own."""
    env: Annotated[tuple[EnvVar, ...], Field(max_length=MAX_WORDS), *keyed_by("name")] = ()
    """Variables of the program, in addition to those that the operator sets."""

    @property
    def texts(self) -> Iterator[tuple[str, str]]:
        """(field, text) of all fields that may contain a reference."""
        for field, words in (("command", self.command), ("args", self.args)):
            yield from ((f"{field}[{index}]", word) for index, word in enumerate(words or ()))
        yield from ((f"env[{index}].value", one.value) for index, one in enumerate(self.env) if one.value is not None)


class TrialSpec(TrainingJobSpec):
    """Spec of the TrainingJob of a trial."""

    runtime: TrialRuntime
    """What runs."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        *TrainingJobSpec.RULES,
        Rule(
            "suspend",
            "!self.suspend",
            "a sweep is held back as a whole: write `spec.suspend: true` of the sweep",
            lambda it: not it.suspend,
        ),
        Rule(
            "ttlAfterFinished",
            "!has(self.ttlAfterFinished)",
            "trials are kept with their sweep, whose status speaks of them, and go with it; write"
            " `spec.ttlAfterFinished` of the sweep",
            lambda it: it.ttl_after_finished is None,
        ),
        Rule(
            "checkpoint.path",
            f"!self.?checkpoint.?path.hasValue() || self.checkpoint.path.size() <= {MAX_CHECKPOINT_PATH}",
            f"must have at most {MAX_CHECKPOINT_PATH} characters here: the name of the trial comes after it, so that no"
            " trial goes on from the checkpoint of another",
            lambda it: it.checkpoint is None or len(it.checkpoint.path or "") <= MAX_CHECKPOINT_PATH,
        ),
    )


class TrialTemplate(Model):
    """The TrainingJob of every trial."""

    spec: TrialSpec
    """As of a TrainingJob."""
