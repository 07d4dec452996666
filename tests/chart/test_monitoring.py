"""Dashboards and alerts ask for what operator and agents export, in PromQL that can be read; alerts say what to do."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.core import Metric

from cotenant.controller.telemetry.metrics import Metrics
from cotenant_agent.metrics import NodeViewCollector
from tests.agent.test_metrics import look, make_agent
from tests.support.promql import selectors

CHART = Path(__file__).parents[2] / "charts" / "cotenant"
OF_THE_SCRAPE = {"instance", "job", "namespace", "pod", "le"}
"""Labels that Prometheus and its histograms add."""
UNITS = {"none", "percentunit", "watt", "celsius", "bytes", "s"}


def exported() -> dict[str, set[str]]:
    """Name of a series → its labels, of both programs."""
    operator, agent = Metrics(), make_agent()
    look(agent, 1_700_000_000.0)
    agent.conditions = ({"type": "MemoryIsolationLowered", "status": "True"},)
    families: list[Metric] = [*operator.registry.collect(), *NodeViewCollector(agent).collect()]
    found: dict[str, set[str]] = {}
    declared = {one._name: set(one._labelnames) for one in vars(operator).values() if hasattr(one, "_labelnames")}
    for family in families:
        ends = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}.get(family.type, [""])
        for end in ends:
            found[family.name + end] = declared.get(family.name, set()).union(
                *(set(one.labels) for one in family.samples)
            )
    return found


OF_OTHERS = {
    "up": {"job", "instance"},
    "kube_daemonset_status_desired_number_scheduled": {"daemonset", "namespace"},
    "kube_daemonset_status_number_ready": {"daemonset", "namespace"},
}
"""Series of Prometheus itself and of kube-state-metrics, with their labels."""


def rules() -> list[dict[str, Any]]:
    """Those of the template, as it is with agents: what Helm fills in is of no matter here."""
    text = (CHART / "templates" / "monitors.yaml").read_text()
    body = text[text.index("  groups:") :]
    lines = [re.sub(r'\{\{ "(.*?)" \}\}', r"\1", line) for line in body.splitlines()]
    plain = "\n".join(line for line in lines if not line.strip().startswith("{{-"))
    found: list[dict[str, Any]] = yaml.safe_load(plain)["groups"][0]["rules"]
    return found


def panels() -> list[tuple[str, dict[str, Any]]]:
    boards = sorted((CHART / "dashboards").glob("*.json"))
    return [(path.stem, panel) for path in boards for panel in json.loads(path.read_text())["panels"]]


EXPRESSIONS = [(rule["alert"], rule["expr"]) for rule in rules()]
EXPRESSIONS += [(f"{board}: {one['title']}", each["expr"]) for board, one in panels() for each in one["targets"]]


@pytest.mark.parametrize(("where", "expression"), EXPRESSIONS, ids=[where for where, _ in EXPRESSIONS])
def test_an_expression_can_be_read_and_asks_for_what_is_exported(where: str, expression: str) -> None:
    known = exported() | OF_OTHERS
    for selector in selectors(expression):
        assert selector.metric in known, f"{where}: nobody exports {selector.metric}"
        assert set(selector.labels) <= known[selector.metric] | OF_THE_SCRAPE, where


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_an_alert_says_how_bad_it_is_for_how_long_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert re.fullmatch(r"\d+m", rule["for"])
    assert len(rule["annotations"]["summary"]) > 30
    assert len(rule["annotations"]["description"].split()) > 20
    grouped = set(re.findall(r"by \(([^)]*)\)", rule["expr"])) or {""}
    kept = {name.strip() for names in grouped for name in names.split(",")}
    assert set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))) <= kept


@pytest.mark.parametrize("path", sorted((CHART / "dashboards").glob("*.json")), ids=lambda path: str(path.stem))
def test_a_dashboard_is_as_grafana_reads_it(path: Path) -> None:
    board = json.loads(path.read_text())
    assert re.fullmatch(r"cotenant-[a-z]+", board["uid"])
    variables = {one["name"]: one for one in board["templating"]["list"]}
    assert variables.pop("datasource")["type"] == "datasource"
    known = exported()
    for one in variables.values():
        asked = re.fullmatch(r"label_values\((\w+), (\w+)\)", one["query"])
        assert asked is not None, one["query"]
        assert asked[2] in known[asked[1]], one["query"]
    numbers, places = [], set[tuple[int, int]]()
    for panel in board["panels"]:
        numbers.append(panel["id"])
        at = panel["gridPos"]
        own = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not own & places, panel["title"]
        assert at["x"] + at["w"] <= 24, panel["title"]
        places |= own
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
        used = set(re.findall(r"\$(\w+)", json.dumps(panel["targets"]))) - {"datasource"}
        assert used <= variables.keys()
    assert len(set(numbers)) == len(numbers)
