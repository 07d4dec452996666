"""bench/admission.py: the objects that it makes, and how it reads the operator's metrics. No time is checked."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

from cotenant.api.conversion.to_core import parse_job, parse_queue

BENCH = Path(__file__).parents[2] / "bench"
ADMISSION = runpy.run_path(str(BENCH / "admission.py"))
PROCESSES = runpy.run_path(str(BENCH / "parts" / "admission" / "processes.py"))
METRICS = """
# HELP calls What was called
calls_total{verb="PATCH",resource="pods"} 3.0
calls_total{verb="PATCH",resource="trainingjobs/status"} 4.0
calls_total{verb="POST",resource="pods"} 5.0
calls_total_created{verb="POST",resource="pods"} 1e9
leader 1.0
"""


def test_its_jobs_and_its_queue_are_what_the_operator_takes() -> None:
    meta = {"uid": "u", "resourceVersion": "1"}
    jobs = []
    for suspend in (False, True):
        document = ADMISSION["job"]("one", suspend=suspend)
        jobs.append(parse_job(document | {"metadata": document["metadata"] | meta}))
    queue = ADMISSION["bench_queue"](64)
    read = parse_queue(queue | {"metadata": queue["metadata"] | meta})
    assert [(job.spec.queue, job.spec.workers, job.spec.gpu.count, job.spec.suspend) for job in jobs] == [
        ("bench", 1, 1, False),
        ("bench", 1, 1, True),
    ]
    assert (read.metadata.name, [line.guaranteed for line in read.spec.quotas]) == ("bench", [64_000])


def test_samples_of_a_metric_are_added_up_by_their_labels() -> None:
    total = PROCESSES["total"]
    assert total(METRICS, "calls_total") == 12.0
    assert total(METRICS, "calls_total", verb="PATCH") == 7.0
    assert total(METRICS, "calls_total", verb="POST", resource="pods") == 5.0
    assert (total(METRICS, "calls_total", verb="GET"), total(METRICS, "leader"), total("", "leader")) == (0.0, 1.0, 0.0)


def test_the_cpu_of_a_process_is_what_it_has_used() -> None:
    used = PROCESSES["cpu_s"](os.getpid())
    assert 0.0 < used <= sum(os.times()[:2]) + 0.05
