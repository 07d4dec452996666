"""Metrics of the operator against the documentation for administrators."""

from __future__ import annotations

import re
from pathlib import Path

from cotenant.controller.telemetry.metrics import Metrics

ADMINISTRATORS = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text()


def test_every_metric_is_explained_and_none_that_is_not_there() -> None:
    served = Metrics().exposition().decode()
    described = dict(re.findall(r"^# HELP (\S+) (.*)$", served, re.MULTILINE))
    # Of a counter or histogram, `_created` says when it began; nobody asks for that.
    names = {name for name in described if not name.endswith("_created")}
    operators_part = ADMINISTRATORS.split("## Metrics of the agents")[0]
    documented = set(re.findall(r"`(cotenant_\w+)", operators_part.split("| metric of the operator |")[1]))
    assert documented == names
    assert all(described[name] for name in names)
