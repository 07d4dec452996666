"""Usage of nodes out of scrapes: a rate needs two that differ, and a node that does not answer is not in it."""

import ssl
import time
from pathlib import Path
from typing import Any

import pytest

from cotenant_local.host.cluster_folder import ClusterFolder
from cotenant_local.metrics import rates
from cotenant_local.metrics.collector import MetricsCollector
from cotenant_local.metrics.rates import Key, Sample, UsageRate
from local.tests.plans import cluster_plan


class EndOfTestError(Exception):
    """Ends the loop of a scraper, which has no end."""


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MetricsCollector:
    class NoTls:
        def load_cert_chain(self, *_: object) -> None: ...

    monkeypatch.setattr(ssl, "create_default_context", lambda **_: NoTls())
    return MetricsCollector(ClusterFolder(tmp_path), cluster_plan())


def followed(
    made: MetricsCollector, monkeypatch: pytest.MonkeyPatch, *scrapes: dict[Key, Sample] | Exception
) -> list[dict[str, Any]]:
    """What `nodes` holds after each scrape."""
    left, seen = list(scrapes), []

    def scrape(_: str) -> Any:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def pause(_: float) -> None:
        seen.append(dict(made.nodes))
        if not left:
            raise EndOfTestError

    monkeypatch.setattr(made, "_scrape", scrape)
    monkeypatch.setattr(rates, "parse", lambda scraped: scraped)
    monkeypatch.setattr(time, "sleep", pause)
    with pytest.raises(EndOfTestError):
        made._follow("node-1")
    return seen


def use(**samples: tuple[float, int, float]) -> dict[Key, Sample]:
    return {(name,): Sample(*sample) for name, sample in samples.items()}


def test_a_rate_needs_two_scrapes_and_stays_while_the_kubelet_has_not_measured_again(
    made: MetricsCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = use(a=(1.0, 10, 100.0)), use(a=(2.0, 20, 110.0))
    rate = {"node-1": {("a",): UsageRate(100_000_000, 20, 110.0, 10.0)}}
    assert followed(made, monkeypatch, first, first, second, second) == [{"node-1": {}}, {"node-1": {}}, rate, rate]


def test_a_container_that_was_measured_earlier_keeps_its_rate_until_it_is_gone(
    made: MetricsCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = followed(
        made,
        monkeypatch,
        use(a=(1.0, 10, 100.0), b=(0.0, 1, 100.0)),
        use(a=(2.0, 20, 110.0), b=(1.0, 1, 110.0)),
        use(a=(2.0, 20, 110.0), b=(3.0, 2, 120.0)),
        use(b=(3.0, 2, 120.0)),
    )
    of_a, of_b = UsageRate(100_000_000, 20, 110.0, 10.0), UsageRate(200_000_000, 2, 120.0, 10.0)
    assert [each["node-1"] for each in seen[2:]] == [{("a",): of_a, ("b",): of_b}, {("b",): of_b}]


def test_a_node_that_does_not_answer_is_left_out_and_begins_anew(
    made: MetricsCollector, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, third = use(a=(1.0, 1, 100.0)), use(a=(2.0, 1, 110.0)), use(a=(3.0, 1, 120.0))
    seen = followed(made, monkeypatch, first, OSError("no route"), second, third)
    assert seen == [{"node-1": {}}, {}, {"node-1": {}}, {"node-1": {("a",): UsageRate(100_000_000, 1, 120.0, 10.0)}}]
    assert capsys.readouterr().err == "metrics of node-1: no route\n"
