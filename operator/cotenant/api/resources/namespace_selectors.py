"""Selectors of namespaces by their labels, as Kubernetes writes them (metav1.LabelSelector)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from cotenant.api.scalars.fields import NULL_IS_ABSENT, LabelKey, SelectedValue, Str, label_keys_rule
from cotenant.api.validation.rules import Model, Rule


class SelectorOperator(StrEnum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class SelectorRequirement(Model):
    key: LabelKey
    """Key of a label."""
    operator: SelectorOperator
    """How the label's value is compared."""
    values: Annotated[tuple[SelectedValue, ...], Field(max_length=64)] = ()
    """Values to compare with, for In and NotIn."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "values",
            "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
            "In and NotIn need values; Exists and DoesNotExist take none",
            lambda it: (it.operator in {SelectorOperator.IN, SelectorOperator.NOT_IN}) == bool(it.values),
        ),
    )


class NamespaceSelector(Model):
    """Namespaces by their labels; an empty selector means all of them."""

    match_labels: Annotated[dict[Str, SelectedValue], Field(max_length=16, default_factory=dict), NULL_IS_ABSENT]
    """Labels that a namespace must carry, all of them."""
    match_expressions: Annotated[tuple[SelectorRequirement, ...], Field(max_length=16)] = ()
    """Further conditions on its labels, all of which must hold."""

    RULES: ClassVar[tuple[Rule, ...]] = (label_keys_rule("matchLabels", "team"),)

    def matches(self, labels: dict[str, str]) -> bool:
        """True if a namespace with these labels is selected."""
        if any(labels.get(key) != value for key, value in self.match_labels.items()):
            return False
        return all(_holds(requirement, labels) for requirement in self.match_expressions)


def _holds(requirement: SelectorRequirement, labels: dict[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case SelectorOperator.IN:
            return value in requirement.values
        case SelectorOperator.NOT_IN:
            return value not in requirement.values
        case SelectorOperator.EXISTS:
            return value is not None
        case SelectorOperator.DOES_NOT_EXIST:
            return value is None
