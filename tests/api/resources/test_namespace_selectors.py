"""Namespace selectors hold for the labels that Kubernetes' own selectors hold for."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.api.resources.namespace_selectors import NamespaceSelector


@pytest.mark.parametrize(
    ("selector", "labels", "want"),
    [
        ({}, {}, True),
        ({"matchLabels": {"team": "a"}}, {"team": "a", "stage": "dev"}, True),
        ({"matchLabels": {"team": "a", "stage": "dev"}}, {"team": "a"}, False),
        ({"matchExpressions": [{"key": "team", "operator": "In", "values": ["a", "b"]}]}, {"team": "b"}, True),
        ({"matchExpressions": [{"key": "team", "operator": "In", "values": ["a"]}]}, {}, False),
        ({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}, {}, True),
        ({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}, {"team": "a"}, False),
        ({"matchExpressions": [{"key": "team", "operator": "Exists"}]}, {"team": ""}, True),
        ({"matchExpressions": [{"key": "team", "operator": "Exists"}]}, {}, False),
        ({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}, {}, True),
        ({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}, {"team": "a"}, False),
        (
            {"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "Exists"}]},
            {"a": "1"},
            False,
        ),
    ],
    ids=str,
)
def test_a_selector_matches(selector: dict[str, Any], labels: dict[str, str], want: bool) -> None:
    assert NamespaceSelector.model_validate(selector).matches(labels) is want
