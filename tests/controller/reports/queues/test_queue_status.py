"""What the status of a Queue says, from a snapshot: pure, no cluster."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.api.conversion.to_core import parse_queue, to_queue
from cotenant.controller.cluster.budgets.budgets import Budgets
from cotenant.controller.reports.queues.queue_status import QueueAccounts, status_of
from cotenant.core.model.objects import GpuRequest
from tests.support.clusters import ToyCluster, make_job, make_node

DAY = 86_400.0


def status(spec: dict[str, Any], *, passed: float = 0.0) -> dict[str, Any]:
    """Status of queue red if it runs one share of 20 GiB and one whole GPU of 80 GiB, some time later."""
    document = {"apiVersion": "cotenant.dev/v1beta1", "kind": "Queue", "metadata": {"name": "red"}, "spec": spec}
    queue = parse_queue(document)
    jobs = [make_job("share", gpu=GpuRequest(memory_mib=20_480)), make_job("whole")]
    toy = ToyCluster([make_node("n1", gpus=2)], [to_queue(queue, namespaces={"red": {}})], jobs)
    toy.cycle()
    toy.now += passed
    account = QueueAccounts.of(toy.snapshot())
    shown: dict[str, Any] = status_of(queue, account, {"red": True}, Budgets(), toy.now).to_document()
    return shown


def test_gpu_memory_that_is_held_stands_beside_its_limit() -> None:
    spec = {"namespaces": ["red"], "quotas": [{"guaranteed": 2, "memoryLimit": "160Gi"}, {"gpuClass": "H100"}]}
    bounded, unbounded = status(spec)["quotas"]
    assert (bounded["memoryUsed"], bounded["memoryLimit"], bounded["used"]) == ("100Gi", "160Gi", "1.25")
    assert unbounded.keys().isdisjoint({"memoryUsed", "memoryLimit"})


def test_what_was_borrowed_is_written_down_with_the_half_life_of_its_tree() -> None:
    spec = {"namespaces": ["red"], "quotas": [{"guaranteed": 0}], "fairShare": {"halfLife": "24h"}}
    past = status(spec, passed=DAY)["pastBorrowing"]
    assert past["halfLifeSeconds"] == DAY
    # After one half-life at 1.25 GPUs, usage is half of its limit value.
    assert 0.62 < past["milliGPUSeconds"] * 0.6931 / DAY / 1000 < 0.63


@pytest.mark.parametrize(
    ("quotas", "borrowed", "of_lines"),
    [
        ([{"guaranteed": 2}, {"gpuClass": "H100", "limit": 2}], "0", ["0", "0"]),
        ([{"guaranteed": 1}, {"gpuClass": "H100", "limit": 2}], "0.25", ["0.25", "0.25"]),
        ([{"guaranteed": 1}, {"gpuClass": "T4", "limit": 2}], "0.25", ["0.25", "0"]),
        ([{"limit": 2}, {"gpuClass": "H100", "guaranteed": 1}], "0.25", ["0.25", "0.25"]),
        ([{"limit": 2}], "1.25", ["1.25"]),
    ],
    ids=["all is guaranteed", "a quarter is not", "of another class", "a class is guaranteed", "nothing is guaranteed"],
)
def test_a_line_that_only_limits_makes_nothing_borrowed(
    quotas: list[dict[str, Any]], borrowed: str, of_lines: list[str]
) -> None:
    """1.25 GPUs of class H100 are held."""
    shown = status({"namespaces": ["red"], "quotas": quotas})
    assert (shown["borrowed"], [line["borrowed"] for line in shown["quotas"]]) == (borrowed, of_lines)
