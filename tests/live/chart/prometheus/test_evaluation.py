"""Dashboards and alerts as Prometheus itself reads and evaluates them, on what operator and agent really export.

Its scrape parser, storage, engine and rule checks are those of its Go module; Grafana's part, filling in variables and
legends, is played as its documentation has it. A panel without a series, or with a legend of labels that the series
does not have, would be an empty panel to a person.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import generate_latest

from cotenant.controller.telemetry.metrics import Metrics
from cotenant_agent.metrics import NodeViewCollector
from tests.agent.test_metrics import look, make_agent
from tests.chart.conftest import Render
from tests.live.chart.prometheus.evaluation import Answer, Target, evaluate

# They take what a cluster takes: a program that is built from Go modules, once, in some minutes.
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]
CHART = Path(__file__).parents[4] / "charts" / "cotenant"
SCRAPES, APART_S = 12, 30.0
VALUES = {"queue": "team-a", "gpu_class": "H100", "ok": "true", "code": "500"}
"""Of labels that expressions ask for by value."""
ON = {"metrics": {"monitors": True, "dashboards": True}}


OF_PROMETHEUS = "# TYPE up gauge\nup {up}\n"
OF_KUBE_STATE_METRICS = """
# TYPE kube_daemonset_status_desired_number_scheduled gauge
kube_daemonset_status_desired_number_scheduled{{daemonset="cotenant-agent",namespace="cotenant-system"}} 2
# TYPE kube_daemonset_status_number_ready gauge
kube_daemonset_status_number_ready{{daemonset="cotenant-agent",namespace="cotenant-system"}} {ready}
"""


def operator_scrapes() -> list[str]:
    """Every metric of the operator moves between two scrapes."""
    operator, found = Metrics(), list[str]()
    for _ in range(SCRAPES):
        for metric in vars(operator).values():
            if not hasattr(metric, "_labelnames"):
                continue
            one = (
                metric.labels(*(VALUES.get(name, "x") for name in metric._labelnames)) if metric._labelnames else metric
            )
            (getattr(one, "observe", None) or one.inc)(1)
        found.append(generate_latest(operator.registry).decode())
    return found


def agent_scrapes() -> list[str]:
    """A pod of namespace `red` on one of its GPUs, and somebody else on it."""
    agent, found = make_agent(), list[str]()
    for number in range(SCRAPES):
        look(agent, 1_700_000_000.0 + number * APART_S)
        agent.conditions = ({"type": "MemoryIsolationLowered", "status": "True"},)
        found.append(generate_latest(NodeViewCollector(agent)).decode())
    return found


def targets(render: Render) -> list[Target]:
    """Targets as the Prometheus operator makes them of the chart's ServiceMonitors."""
    objects, found = render(ON), list[Target]()
    for name, scrapes in (("cotenant-operator", operator_scrapes()), ("cotenant-agent", agent_scrapes())):
        monitor = objects["ServiceMonitor", name]
        (endpoint,) = monitor["spec"]["endpoints"]
        called = {"job": name, "service": name, "pod": f"{name}-1", "container": "c", "instance": "10.0.0.1:8443"}
        called |= {"namespace": monitor["metadata"]["namespace"], "endpoint": endpoint["port"]}
        found.append(
            Target(called, [*(one + OF_PROMETHEUS.format(up=1) for one in scrapes)], endpoint.get("honorLabels", False))
        )
    counts = OF_KUBE_STATE_METRICS.format(ready=2)
    return [*found, Target({"job": "kube-state-metrics", "instance": "k"}, [counts] * SCRAPES)]


@cache
def boards() -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text()) for path in sorted((CHART / "dashboards").glob("*.json"))}


def filled_in(expression: str, board: dict[str, Any]) -> str:
    """A query with every variable at `All`, as the dashboard opens."""
    for one in board["templating"]["list"]:
        name, everything = one["name"], one.get("allValue", "")
        expression = expression.replace(f"${{{name}}}", everything).replace(f"${name}", everything)
    return expression


PANELS = [
    (f"{name}: {panel['title']}", filled_in(each["expr"], board), each["legendFormat"])
    for name, board in boards().items()
    for panel in board["panels"]
    for each in panel["targets"]
]


def answers(render: Render, *expressions: str) -> list[Answer]:
    return evaluate(targets(render), expressions)[0]


def alerts(render: Render) -> dict[str, Any]:
    return dict(render(ON)["PrometheusRule", "cotenant"]["spec"])


def test_every_panel_shows_something_and_its_legend_names_it(render: Render) -> None:
    for (where, _, legend), found in zip(PANELS, answers(render, *(one for _, one, _ in PANELS)), strict=True):
        assert (found.error, found.type) == ("", "vector"), where
        assert found.series, f"{where}: there is nothing to see"
        named = set(re.findall(r"\{\{\s*(\w+)\s*\}\}", legend))
        assert all(named <= one.keys() for one in found.series), f"{where}: {legend}, and the series are {found.series}"


def test_what_is_shown_by_tenant_and_pod_is_of_the_tenants_not_of_the_agent_that_is_scraped(render: Render) -> None:
    used = "sum by (namespace, pod) (cotenant_pod_gpu_memory_used_bytes)"
    (found,) = answers(render, used)
    assert found.series == [{"namespace": "red", "pod": "a-1-0"}]


def test_variables_of_dashboards_have_values(render: Render) -> None:
    asked = [one["query"] for board in boards().values() for one in board["templating"]["list"][1:]]
    parts = [re.fullmatch(r"label_values\((\w+), (\w+)\)", query) for query in asked]
    named = [(str(part[1]), str(part[2])) for part in parts if part is not None]
    assert len(named) == len(asked)
    for (metric, label), found in zip(named, answers(render, *(metric for metric, _ in named)), strict=True):
        assert all(one.get(label) for one in found.series), metric
        assert found.series, metric


def test_prometheus_takes_the_rules_and_every_alert_looks_at_something(render: Render) -> None:
    spec = alerts(render)
    expressions = [rule["expr"] for group in spec["groups"] for rule in group["rules"]]
    found, wrong = evaluate(targets(render), expressions, yaml.safe_dump(spec))
    assert wrong == []
    assert [one.error for one in found] == [""] * len(expressions)
    metrics = sorted({selector["metric"] for one in found for selector in one.selectors})
    seen = answers(render, *metrics)
    assert [metric for metric, one in zip(metrics, seen, strict=True) if not one.series] == []


GONE = {"CotenantNoLeader", "CotenantAgentsMissing"}
"""Alerts that fire when there is nothing to be scraped at all."""


def firing(render: Render, stored: list[Target]) -> set[str]:
    named = [(rule["alert"], rule["expr"]) for group in alerts(render)["groups"] for rule in group["rules"]]
    found = evaluate(stored, [expression for _, expression in named])[0]
    assert [one.error for one in found] == [""] * len(named)
    return {name for (name, _), one in zip(named, found, strict=True) if one.series}


def gone(name: str) -> Target:
    """A target that cannot be scraped, as Prometheus notes it."""
    called = {"job": name, "instance": "10.0.0.9:8443"}
    return Target(called, [OF_PROMETHEUS.format(up=0)] * SCRAPES)


def test_alerts_about_what_is_gone_fire_on_an_empty_store(render: Render) -> None:
    assert firing(render, []) == GONE


def test_alerts_about_what_is_gone_are_silent_where_all_is_there(render: Render) -> None:
    there = firing(render, targets(render))
    assert not there & (GONE | {"CotenantTargetDown", "CotenantQueryUnavailable"})


def test_a_target_that_cannot_be_scraped_is_told_by_its_name(render: Render) -> None:
    assert firing(render, [gone("cotenant-agent")]) >= {"CotenantTargetDown", "CotenantAgentSilent"}
    assert firing(render, [gone("cotenant-operator")]) >= {"CotenantTargetDown", "CotenantNoLeader"}


def test_agents_that_do_not_start_are_told_by_their_daemon_set(render: Render) -> None:
    counts = OF_KUBE_STATE_METRICS.format(ready=1)
    missing = Target({"job": "kube-state-metrics", "instance": "k"}, [counts] * SCRAPES)
    assert "CotenantAgentsMissing" in firing(render, [*targets(render)[:2], missing])


def test_a_rule_file_that_is_wrong_is_refused() -> None:
    rules = {"groups": [{"name": "a", "rules": [{"alert": "A", "expr": "sum(", "for": "5m"}]}]}
    _, wrong = evaluate([], [], yaml.safe_dump(rules))
    assert len(wrong) == 1
