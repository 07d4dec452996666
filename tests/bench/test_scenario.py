from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

from cotenant.api.conversion.to_core import parse_job, parse_queue

BENCH = Path(__file__).resolve().parents[2] / "bench" / "parts" / "admission" / "scenario.py"
scenario = SimpleNamespace(**runpy.run_path(str(BENCH)))
GENERATOR = """
cohorts:
- className: cohort
  count: 2
  queuesSets:
  - className: cq
    count: 2
    nominalQuota: 20
    borrowingLimit: 100
    workloadsSets:
    - {count: 10, creationIntervalMs: 100, workloads: [{className: small, runtimeMs: 200, priority: 50, request: 1}]}
    - {count: 1, creationIntervalMs: 1200, workloads: [{className: large, runtimeMs: 1000, priority: 200, request: 20}]}
"""
SMALL = scenario.WorkloadSet(kind="small", count=5, every_s=0.1, run_s=0.2, priority=50, gpus=1)
LARGE = scenario.WorkloadSet(kind="large", count=1, every_s=1.2, run_s=1.0, priority=200, gpus=20)


@pytest.fixture
def generator(tmp_path: Path) -> Path:
    path = tmp_path / "generator.yaml"
    path.write_text(GENERATOR)
    return path


def test_every_queue_of_every_cohort_gets_its_share_of_each_set_and_at_least_one(generator: Path) -> None:
    queues = scenario.read(generator, share=0.5)
    assert [(queue.name, queue.cohort, queue.guaranteed, queue.limit) for queue in queues] == [
        ("cohort-0-cq-0", "cohort-0", 20, 120),
        ("cohort-0-cq-1", "cohort-0", 20, 120),
        ("cohort-1-cq-0", "cohort-1", 20, 120),
        ("cohort-1-cq-1", "cohort-1", 20, 120),
    ]
    assert {queue.sets for queue in queues} == {(SMALL, LARGE)}


def test_all_sets_of_a_queue_begin_at_once(generator: Path) -> None:
    arrivals = scenario.arrivals(scenario.read(generator))
    assert [(one.at_s, one.name) for one in arrivals if one.queue == "cohort-1-cq-0"][:3] == [
        (0.0, "cohort-1-cq-0-small-0"),
        (0.0, "cohort-1-cq-0-large-0"),
        (0.1, "cohort-1-cq-0-small-1"),
    ]
    assert len(arrivals) == 4 * 11


def test_what_is_written_for_a_scenario_passes_the_door(generator: Path) -> None:
    queues = scenario.read(generator)
    parents = [document["spec"].get("parent") for document in scenario.queue_documents(queues, "bench")]
    assert parents == [None, None, "cohort-0", "cohort-0", "cohort-1", "cohort-1"]
    for document in scenario.queue_documents(queues, "bench"):
        parse_queue(document)
    for arrival in scenario.arrivals(queues):
        parse_job(scenario.job(arrival, "bench"))


def test_a_scenario_with_a_topology_is_refused(generator: Path) -> None:
    generator.write_text(GENERATOR + "topology: {name: racks}\n")
    with pytest.raises(SystemExit, match="scenarios with a topology are not played"):
        scenario.read(generator)
