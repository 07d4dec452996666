"""Single changes of a job's spec, tried against a made-up rule of what starts: which one is found, at what amount."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.core.explain.spec_changes import SpecChange, Surroundings, catalogue, told_seconds
from cotenant.core.model.moment import Moment
from cotenant.core.model.objects import GpuRequest, Job, Sharing, Spread, Topology, TopologyMode
from cotenant.core.scheduling.smallest_change import mildest
from tests.support.clusters import make_job

NOWHERE = Surroundings(classes=(), zones=(), priorities=(), workers=10_000, ends=())
CLASSES = replace(NOWHERE, classes=("A100", "H100", "L4"))
ZONES = replace(NOWHERE, zones=("east", "west", "north"))
TIMES = replace(NOWHERE, ends=tuple((float(seconds), seconds) for seconds in (7200, 600, 60)))
RANKS = replace(NOWHERE, priorities=(3, 7, 9))
SHARE = GpuRequest(memory_mib=10_000, compute_milli=500)
FRACTION = GpuRequest(memory_milli=405, compute_milli=500)

Starts = Callable[[Job], bool]
Found = tuple[str, tuple[tuple[str, str], ...]]


def tried(job: Job, around: Surroundings, starts: Starts) -> list[SpecChange]:
    """The mildest change of each kind that starts the job, by a rule that looks at the changed job alone."""
    found = (mildest(kind, lambda change: starts(change.job)) for kind in catalogue(job, around))
    return [change for change in found if change is not None]


def told(job: Job, around: Surroundings, starts: Starts) -> list[Found]:
    """The first of them; none if there is none."""
    first = tried(job, around, starts)[:1]
    return [(one.words, tuple((path, json.dumps(value)) for path, value in one.fields)) for one in first]


def racks(mode: TopologyMode) -> Job:
    return make_job("a", topology=Topology("rack", mode))


def apart(mode: TopologyMode, most: int = 1) -> Job:
    return make_job("a", spread=Spread("zone", mode, most))


def is_soft(job: Job) -> bool:
    return job.spread == Spread("zone", TopologyMode.PREFERRED)


TABLE: dict[str, tuple[Job, Surroundings, Starts, list[Found]]] = {
    "a rack that is required is asked for as a preference": (
        racks(TopologyMode.REQUIRED),
        NOWHERE,
        lambda job: job.topology is not None and job.topology.mode is TopologyMode.PREFERRED,
        [("its topology rack were Preferred instead of Required", (("spec.topology.mode", '"Preferred"'),))],
    ),
    "a rack that is preferred is no obstacle": (
        racks(TopologyMode.PREFERRED),
        NOWHERE,
        lambda job: job.gpu.count > 1,
        [],
    ),
    "a spread that is required is asked for as a preference": (
        apart(TopologyMode.REQUIRED),
        NOWHERE,
        is_soft,
        [("its spread over zones were Preferred instead of Required", (("spec.spread.mode", '"Preferred"'),))],
    ),
    "without the bound that a preference cannot have": (
        apart(TopologyMode.REQUIRED, 2),
        NOWHERE,
        is_soft,
        [
            (
                "its spread over zones were Preferred instead of Required",
                (("spec.spread.mode", '"Preferred"'), ("spec.spread.maxWorkers", "null")),
            )
        ],
    ),
    "a spread that is preferred is no obstacle": (
        apart(TopologyMode.PREFERRED),
        NOWHERE,
        lambda job: job.gpu.count > 1,
        [],
    ),
    "one more class is better than any class": (
        make_job("a", classes=("H100",)),
        CLASSES,
        lambda job: job.gpu.count == 1 and ("L4" in job.gpu.classes or not job.gpu.classes),
        [("it also allowed class L4", (("spec.gpu.classes", '["H100", "L4"]'),))],
    ),
    "any class, where no single one helps": (
        make_job("a", classes=("H100",)),
        CLASSES,
        lambda job: job.gpu.count == 1 and not job.gpu.is_share and not job.gpu.classes,
        [("it allowed GPUs of any class", (("spec.gpu.classes", "null"),))],
    ),
    "one more zone is better than any zone": (
        make_job("a", zones=("east",)),
        ZONES,
        lambda job: "north" in job.gpu.zones or not job.gpu.zones,
        [("it also allowed zone north", (("spec.gpu.zones", '["east", "north"]'),))],
    ),
    "any zone, where no single one helps": (
        make_job("a", zones=("east",)),
        ZONES,
        lambda job: not job.gpu.zones,
        [("it allowed GPUs of any zone", (("spec.gpu.zones", "null"),))],
    ),
    "a job of any class and zone has none to add": (
        make_job("a"),
        replace(CLASSES, zones=("east",)),
        lambda job: bool(job.gpu.classes or job.gpu.zones),
        [],
    ),
    "a share is lent to the queue before it is lent to all": (
        make_job("a", milli=400, sharing=Sharing.NEVER),
        NOWHERE,
        lambda job: job.gpu.sharing is not Sharing.NEVER,
        [("it shared its GPUs with jobs of its queue (sharing: Queue)", (("spec.gpu.sharing", '"Queue"'),))],
    ),
    "a share of the queue is lent to all": (
        make_job("a", milli=400, sharing=Sharing.QUEUE),
        NOWHERE,
        lambda job: job.gpu.sharing is not Sharing.QUEUE,
        [("it shared its GPUs with jobs of all queues (sharing: Any)", (("spec.gpu.sharing", '"Any"'),))],
    ),
    "whole GPUs are shared with nobody whatever the job says": (
        make_job("a", sharing=Sharing.NEVER),
        NOWHERE,
        lambda job: job.gpu.sharing is not Sharing.NEVER,
        [],
    ),
    "a job that says no time may run for as long as there is": (
        make_job("a"),
        TIMES,
        lambda job: job.max_runtime_s is not None and job.max_runtime_s <= 600,
        [("it were sure to end within 10m (maxRuntime)", (("spec.maxRuntime", '"10m"'),))],
    ),
    "a job that says a time says a shorter one": (
        make_job("a", max_runtime_s=600),
        replace(TIMES, ends=TIMES.ends[2:]),
        lambda job: job.max_runtime_s != 600,
        [("it were sure to end within 1m (maxRuntime)", (("spec.maxRuntime", '"1m"'),))],
    ),
    "an expectation that is longer is shortened with it": (
        make_job("a", expected_runtime_s=3600),
        TIMES,
        lambda job: job.max_runtime_s == job.expected_runtime_s == 600,
        [
            (
                "it were sure to end within 10m (maxRuntime)",
                (("spec.expectedRuntime", '"10m"'), ("spec.maxRuntime", '"10m"')),
            )
        ],
    ),
    "an expectation that fits is kept": (
        make_job("a", max_runtime_s=9000, expected_runtime_s=600),
        TIMES,
        lambda job: (job.max_runtime_s, job.expected_runtime_s) == (600, 600),
        [("it were sure to end within 10m (maxRuntime)", (("spec.maxRuntime", '"10m"'),))],
    ),
    "the most CPU in tenths, less than now": (
        make_job("a", cpu_milli=4000),
        NOWHERE,
        lambda job: job.cpu_milli < 4000,
        [("a worker asked for at most 3.9 CPU", (("spec.resources.cpu", '"3900m"'),))],
    ),
    "less CPU of a chief, down to what every worker has": (
        make_job("a", cpu_milli=4000, chief_cpu_milli=9000),
        NOWHERE,
        lambda job: job.chief_amounts[0] <= 4000,
        [("its chief asked for at most 4 CPU", (("spec.chief.resources.cpu", '"4000m"'),))],
    ),
    "less memory of a chief": (
        make_job("a", chief_memory_mib=9000),
        NOWHERE,
        lambda job: job.chief_amounts[1] < 5000,
        [("its chief asked for at most 4992 MiB of memory", (("spec.chief.resources.memory", '"4992Mi"'),))],
    ),
    "no document asks for no CPU and no memory at all": (
        make_job("a", cpu_milli=4000, memory_mib=1000),
        NOWHERE,
        lambda job: job.cpu_milli == 0 or job.memory_mib == 0,
        [],
    ),
    "the least CPU that is asked for": (
        make_job("a", cpu_milli=4000),
        NOWHERE,
        lambda job: job.cpu_milli <= 100,
        [("a worker asked for at most 0.1 CPU", (("spec.resources.cpu", '"100m"'),))],
    ),
    "less CPU than a tenth": (
        make_job("a", cpu_milli=4000),
        NOWHERE,
        lambda job: job.cpu_milli <= 42,
        [("a worker asked for at most 0.042 CPU", (("spec.resources.cpu", '"42m"'),))],
    ),
    "less memory than 64 MiB": (
        make_job("a", memory_mib=1000),
        NOWHERE,
        lambda job: job.memory_mib <= 1,
        [("a worker asked for at most 1 MiB of memory", (("spec.resources.memory", '"1Mi"'),))],
    ),
    "less CPU of a chief, where every worker has no whole tenth": (
        make_job("a", cpu_milli=4050, chief_cpu_milli=9000),
        NOWHERE,
        lambda job: job.chief_amounts[0] <= 4060,
        [("its chief asked for at most 4.06 CPU", (("spec.chief.resources.cpu", '"4060m"'),))],
    ),
    "the most memory in steps of 64 MiB": (
        make_job("a", cpu_milli=100, memory_mib=1000),
        NOWHERE,
        lambda job: job.memory_mib <= 700,
        [("a worker asked for at most 640 MiB of memory", (("spec.resources.memory", '"640Mi"'),))],
    ),
    "the document asks for no memory of the operator's own": (
        make_job("a", cpu_milli=100, memory_mib=1768, added_memory_mib=768),
        NOWHERE,
        lambda job: job.memory_mib <= 1468,
        [("a worker asked for at most 640 MiB of memory", (("spec.resources.memory", '"640Mi"'),))],
    ),
    "nor does its chief": (
        make_job("a", memory_mib=1768, chief_memory_mib=9768, added_memory_mib=768),
        NOWHERE,
        lambda job: job.chief_amounts[1] <= 5768,
        [("its chief asked for at most 4992 MiB of memory", (("spec.chief.resources.memory", '"4992Mi"'),))],
    ),
    "memory that the operator adds alone is no reason to ask for less": (
        make_job("a", cpu_milli=0, memory_mib=768, added_memory_mib=768),
        NOWHERE,
        lambda job: job.memory_mib < 768,
        [],
    ),
    "less CPU is enough where less memory would be too": (
        make_job("a", cpu_milli=200, memory_mib=1000),
        NOWHERE,
        lambda job: job.cpu_milli < 200 or job.memory_mib < 1000,
        [("a worker asked for at most 0.1 CPU", (("spec.resources.cpu", '"100m"'),))],
    ),
    "a job that asks for no CPU and no memory asks for no less": (
        make_job("a"),
        NOWHERE,
        lambda job: (job.gpu.count, job.gpu.is_share) == (1, False),
        [],
    ),
    "ranks of shares may lie on one GPU": (
        make_job("a", workers=2, milli=400),
        NOWHERE,
        lambda job: not job.distinct_gpus,
        [("its ranks may share a GPU (collective: gloo)", (("spec.runtime.collective", '"gloo"'),))],
    ),
    "the one rank of a job has none to share a GPU with": (
        make_job("a", milli=400),
        NOWHERE,
        lambda job: not job.distinct_gpus,
        [],
    ),
    "ranks with whole GPUs share none": (make_job("a", workers=2), NOWHERE, lambda job: not job.distinct_gpus, []),
    "the most workers that start": (
        make_job("a", workers=8),
        NOWHERE,
        lambda job: (
            job.workers_min <= 7 and job.workers_max == job.workers_min and job.gpu.count == 1 and not job.gpu.is_share
        ),
        [("it asked for 7 workers", (("spec.workers", "7"),))],
    ),
    "one worker": (
        make_job("a", workers=8),
        NOWHERE,
        lambda job: job.workers_max == 1,
        [("it asked for 1 worker", (("spec.workers", "1"),))],
    ),
    "as many workers as there is room for": (
        make_job("a", workers=8),
        replace(NOWHERE, workers=5),
        lambda job: job.workers_min < 8,
        [("it asked for 5 workers", (("spec.workers", "5"),))],
    ),
    "an elastic gang keeps its most": (
        make_job("a", workers=(4, 8)),
        NOWHERE,
        lambda job: (job.workers_min < 4, job.workers_max) == (True, 8),
        [("it asked for at least 3 workers", (("spec.minWorkers", "3"),))],
    ),
    "fewer GPUs for each worker": (
        make_job("a", gpus=8),
        NOWHERE,
        lambda job: job.gpu.count < 8 and not job.gpu.is_share,
        [("a worker asked for 7 GPUs", (("spec.gpu.count", "7"),))],
    ),
    "one GPU for each worker": (
        make_job("a", gpus=2),
        NOWHERE,
        lambda job: job.gpu.count == 1 and not job.gpu.is_share,
        [("a worker asked for 1 GPU", (("spec.gpu.count", "1"),))],
    ),
    "a part of the only GPU": (
        make_job("a", gpus=1),
        NOWHERE,
        lambda job: job.gpu.is_share,
        [
            (
                "a worker asked for a share of at most 0.99 GPU",
                (("spec.gpu.count", "null"), ("spec.gpu.memoryFraction", '"0.99"')),
            )
        ],
    ),
    "a thousandth of the only GPU": (
        make_job("a"),
        NOWHERE,
        lambda job: job.gpu.memory_milli == 1,
        [
            (
                "a worker asked for a share of at most 0.001 GPU",
                (("spec.gpu.count", "null"), ("spec.gpu.memoryFraction", '"0.001"')),
            )
        ],
    ),
    "a hundredth of a GPU": (
        make_job("a"),
        NOWHERE,
        lambda job: (job.gpu.memory_milli or 0) < 20 and job.gpu.is_share,
        [
            (
                "a worker asked for a share of at most 0.01 GPU",
                (("spec.gpu.count", "null"), ("spec.gpu.memoryFraction", '"0.01"')),
            )
        ],
    ),
    "less of a share's memory in steps of 256 MiB": (
        make_job("a", gpu=GpuRequest(memory_mib=1024)),
        NOWHERE,
        lambda job: (job.gpu.memory_mib or 0) < 1024,
        [("its share were at most 768 MiB", (("spec.gpu.memory", '"768Mi"'),))],
    ),
    "less of a small share's memory in single MiB": (
        make_job("a", gpu=GpuRequest(memory_mib=200)),
        NOWHERE,
        lambda job: (job.gpu.memory_mib or 0) <= 130,
        [("its share were at most 130 MiB", (("spec.gpu.memory", '"130Mi"'),))],
    ),
    "one MiB of a share": (
        make_job("a", gpu=GpuRequest(memory_mib=200)),
        NOWHERE,
        lambda job: job.gpu.memory_mib == 1,
        [("its share were at most 1 MiB", (("spec.gpu.memory", '"1Mi"'),))],
    ),
    "less of a fraction in hundredths": (
        make_job("a", gpu=GpuRequest(memory_milli=405)),
        NOWHERE,
        lambda job: (job.gpu.memory_milli or 0) < 405,
        [("its share were at most 0.4 GPU", (("spec.gpu.memoryFraction", '"0.4"'),))],
    ),
    "less of a small fraction in thousandths": (
        make_job("a", gpu=GpuRequest(memory_milli=9)),
        NOWHERE,
        lambda job: (job.gpu.memory_milli or 0) <= 5,
        [("its share were at most 0.005 GPU", (("spec.gpu.memoryFraction", '"0.005"'),))],
    ),
    "a thousandth of a GPU": (
        make_job("a", gpu=GpuRequest(memory_milli=9)),
        NOWHERE,
        lambda job: job.gpu.memory_milli == 1,
        [("its share were at most 0.001 GPU", (("spec.gpu.memoryFraction", '"0.001"'),))],
    ),
    "a step less than one MiB above it": (
        make_job("a", gpu=GpuRequest(memory_mib=257)),
        NOWHERE,
        lambda job: (job.gpu.memory_mib or 0) < 257,
        [("its share were at most 256 MiB", (("spec.gpu.memory", '"256Mi"'),))],
    ),
    "less compute, where less memory does not help": (
        make_job("a", gpu=SHARE),
        NOWHERE,
        lambda job: (job.gpu.compute_milli or 0) < 500,
        [("its share of the compute were at most 0.49 GPU", (("spec.gpu.computeFraction", '"0.49"'),))],
    ),
    "less compute in thousandths": (
        make_job("a", gpu=SHARE),
        NOWHERE,
        lambda job: (job.gpu.compute_milli or 0) <= 7,
        [("its share of the compute were at most 0.007 GPU", (("spec.gpu.computeFraction", '"0.007"'),))],
    ),
    "a thousandth of the compute": (
        make_job("a", gpu=SHARE),
        NOWHERE,
        lambda job: job.gpu.compute_milli == 1,
        [("its share of the compute were at most 0.001 GPU", (("spec.gpu.computeFraction", '"0.001"'),))],
    ),
    "less memory is named, though less compute would do": (
        make_job("a", gpu=SHARE),
        NOWHERE,
        lambda job: (job.gpu.memory_mib, job.gpu.compute_milli) != (10_000, 500),
        [("its share were at most 9984 MiB", (("spec.gpu.memory", '"9984Mi"'),))],
    ),
    "less of both in proportion": (
        make_job("a", gpu=SHARE),
        NOWHERE,
        lambda job: (job.gpu.memory_mib or 0) < 9_000 and (job.gpu.compute_milli or 0) < 450,
        [
            (
                "its share were at most 8900 MiB with 0.445 of the compute",
                (("spec.gpu.memory", '"8900Mi"'), ("spec.gpu.computeFraction", '"0.445"')),
            )
        ],
    ),
    "less of both, by a hundredth": (
        make_job("a", gpu=FRACTION),
        NOWHERE,
        lambda job: (job.gpu.memory_milli or 0) < 405 and (job.gpu.compute_milli or 0) < 500,
        [
            (
                "its share were at most 0.4 GPU with 0.495 of the compute",
                (("spec.gpu.memoryFraction", '"0.4"'), ("spec.gpu.computeFraction", '"0.495"')),
            )
        ],
    ),
    "a hundredth of both": (
        make_job("a", gpu=SHARE),
        NOWHERE,
        lambda job: (job.gpu.memory_mib or 0) <= 100 and (job.gpu.compute_milli or 0) <= 5,
        [
            (
                "its share were at most 100 MiB with 0.005 of the compute",
                (("spec.gpu.memory", '"100Mi"'), ("spec.gpu.computeFraction", '"0.005"')),
            )
        ],
    ),
    "less than a hundredth of both is no advice": (
        make_job("a", gpu=SHARE),
        NOWHERE,
        lambda job: (job.gpu.memory_mib or 0) < 100 and (job.gpu.compute_milli or 0) < 5,
        [],
    ),
    "the least fraction of both is a thousandth": (
        make_job("a", gpu=GpuRequest(memory_milli=20, compute_milli=20)),
        NOWHERE,
        lambda job: (job.gpu.memory_milli, job.gpu.compute_milli) == (1, 1),
        [
            (
                "its share were at most 0.001 GPU with 0.001 of the compute",
                (("spec.gpu.memoryFraction", '"0.001"'), ("spec.gpu.computeFraction", '"0.001"')),
            )
        ],
    ),
    "the least of both is one": (
        make_job("a", gpu=GpuRequest(memory_mib=20, compute_milli=20)),
        NOWHERE,
        lambda job: (job.gpu.memory_mib, job.gpu.compute_milli) == (1, 1),
        [
            (
                "its share were at most 1 MiB with 0.001 of the compute",
                (("spec.gpu.memory", '"1Mi"'), ("spec.gpu.computeFraction", '"0.001"')),
            )
        ],
    ),
    "a share without a bound of compute has none to lower": (
        make_job("a", gpu=GpuRequest(memory_mib=20)),
        NOWHERE,
        lambda job: job.gpu.compute_milli is not None,
        [],
    ),
    "the lowest priority that helps": (
        make_job("a", priority=1),
        RANKS,
        lambda job: job.priority >= 7,
        [("its priority were 7", (("spec.priority", "7"),))],
    ),
    "a priority of its own takes the place of a class": (
        make_job("a", priority=1, priority_class="batch"),
        RANKS,
        lambda job: job.priority >= 3 and not job.priority_class,
        [("its priority were 3", (("spec.priority", "3"), ("spec.priorityClassName", "null")))],
    ),
}


@pytest.mark.parametrize(("job", "around", "starts", "named"), TABLE.values(), ids=TABLE)
def test_the_mildest_change_of_a_kind_is_named(
    job: Job, around: Surroundings, starts: Starts, named: list[Found]
) -> None:
    assert told(job, around, starts) == named


def test_every_kind_of_change_is_named_once_those_first_that_cost_the_job_nothing() -> None:
    everywhere = Surroundings(("A100",), ("west",), (5,), 10, ((600.0, 600),))
    whole = replace(
        make_job("a", gpus=2, workers=2, classes=("H100",), zones=("east",)),
        topology=Topology("rack", TopologyMode.REQUIRED),
        cpu_milli=4000,
        memory_mib=1000,
    )
    assert [change.words for change in tried(whole, everywhere, lambda _: True)] == [
        "its topology rack were Preferred instead of Required",
        "it also allowed class A100",
        "it also allowed zone west",
        "it were sure to end within 10m (maxRuntime)",
        "a worker asked for at most 3.9 CPU",
        "a worker asked for at most 960 MiB of memory",
        "it asked for 1 worker",
        "a worker asked for 1 GPU",
        "a worker asked for a share of at most 0.99 GPU",
        "its priority were 5",
    ]


@pytest.mark.parametrize(("job", "around", "starts", "named"), TABLE.values(), ids=TABLE)
def test_a_change_contains_the_changed_job_and_that_job_starts(
    job: Job, around: Surroundings, starts: Starts, named: list[Found]
) -> None:
    jobs = [change.job for change in tried(job, around, starts)]
    assert all(changed != job and starts(changed) for changed in jobs)
    assert bool(jobs) == bool(named)


def test_two_changes_are_equal_if_their_words_and_fields_are() -> None:
    assert SpecChange("its priority were 3", make_job("a")) == SpecChange("its priority were 3", make_job("b"))


@pytest.mark.parametrize(
    ("left", "rounded"),
    [(-5, 0), (-1, 0), (0, 0), (59, 59),
     (60, 60), (69, 60), (599, 590), (600, 600), (959, 900), (960, 960), (1_079, 960), (7_287, 7_200),
     (90_000, 84_480)],
)  # fmt: skip
def test_the_remaining_time_is_worded_in_units_that_grow_with_it(left: int, rounded: int) -> None:
    moment = Moment(1_000.0)

    assert told_seconds(1_000.0 + left, moment) == rounded
    assert moment.until == (1_000.0 + left - rounded if left >= 0 else inf)


@given(st.integers(0, 100_000), st.integers(0, 50_000))
def test_a_rounded_instant_stays_the_same_until_the_time_that_the_moment_noted(left: int, later: int) -> None:
    moment = Moment(0.0)
    rounded = told_seconds(left, moment)

    if later <= moment.until:
        assert told_seconds(left, Moment(later)) == rounded
