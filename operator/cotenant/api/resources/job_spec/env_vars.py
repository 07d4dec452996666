"""Variables of a job's program: names, sources of values, and those that a job may not set."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, TypeAlias

from cotenant.api.resources.job_spec import reserved_env
from cotenant.api.scalars.fields import ObjectName, Str, cel_text, passed_on, text
from cotenant.api.validation.rules import Model, Rule

Key: TypeAlias = Annotated[
    Str, *text(r"^[-._a-zA-Z0-9]+$", "must be a key of letters, digits, '-', '_' and '.'", longest=253)
]


class KeyOf(Model):
    name: ObjectName
    """Its name."""
    key: Key
    """One of its keys."""


class EnvSource(Model):
    secret_key_ref: KeyOf | None = None
    """A key of a Secret in the job's namespace."""
    config_map_key_ref: KeyOf | None = None
    """A key of a ConfigMap in the job's namespace."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "",
            "has(self.secretKeyRef) != has(self.configMapKeyRef)",
            "valueFrom takes exactly one of secretKeyRef and configMapKeyRef; write one of them, such as"
            " `secretKeyRef: {name: keys, key: token}`",
            lambda it: (it.secret_key_ref is None) != (it.config_map_key_ref is None),
        ),
    )


def _denied(row: reserved_env.Denied) -> Rule:
    return Rule(
        "name",
        f"!self.name.matches({cel_text(row.names)})",
        f"this variable is not for the job to set: {row.why}; leave it out",
        lambda it: re.fullmatch(row.names, it.name) is None,
    )


class EnvVar(Model):
    name: Annotated[
        Str, *text(reserved_env.NAME, "must be the name of a variable: letters, digits and '_'", longest=128)
    ]
    """Not one of the names that the operator sets or forbids."""
    value: Annotated[str, *passed_on(4096)] | None = None
    """The value itself, not expanded by a shell."""
    value_from: EnvSource | None = None
    """Where the value is read when the pod starts."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        *(_denied(row) for row in reserved_env.DENIED),
        Rule(
            "valueFrom",
            "!(has(self.value) && has(self.valueFrom))",
            "value and valueFrom exclude each other; leave one of the two out",
            lambda it: it.value is None or it.value_from is None,
        ),
        Rule(
            "value",
            f"!self.name.matches({cel_text(reserved_env.ALLOCATOR)})"
            f" || (has(self.value) && self.value.matches({cel_text(reserved_env.ALLOCATOR_VALUE)}))",
            "the allocator takes only keys that do not touch the memory limit, such as expandable_segments:True or"
            " max_split_size_mb:128; the limit itself is set from the job's share",
            lambda it: (
                re.fullmatch(reserved_env.ALLOCATOR, it.name) is None
                or (it.value is not None and re.fullmatch(reserved_env.ALLOCATOR_VALUE, it.value) is not None)
            ),
        ),
    )
