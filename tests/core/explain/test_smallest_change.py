"""The smallest change that would start a waiting job."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.core import schedule
from cotenant.core.model.objects import Job, Node, Topology, TopologyMode
from cotenant.testing import make_job, make_node, make_placement, make_queue, make_snapshot


def busy(name: str, node: str, column: int, **changes: object) -> Job:
    job = make_job(name, placement=make_placement((node, [[column]])), **changes)  # type: ignore[arg-type]
    return replace(job, admitted_at=900.0)


CHANGES: dict[str, tuple[list[Node], list[Job], Job]] = {
    "it asked for 3 workers": ([make_node("n1", gpus=4)], [busy("a", "n1", 0)], make_job("new", workers=4)),
    "its share were at most 0.2 GPU": (
        [make_node("n1", gpus=1)],
        [make_job("a", milli=800, placement=make_placement(("n1", [[0]]), milli=800))],
        make_job("new", milli=400),
    ),
    "it also allowed class A100": (
        [make_node("n1", gpus=1), make_node("n2", gpus=1, gpu_class="A100")],
        [busy("a", "n1", 0)],
        make_job("new", classes=("H100",)),
    ),
    "its topology rack were Preferred instead of Required": (
        [make_node("n1", rack="r1"), make_node("n2", rack="r2")],
        [busy("a", "n1", 0)],
        make_job("new", workers=2, gpus=1, topology=Topology("rack", TopologyMode.REQUIRED)),
    ),
    "its ranks may share a GPU (collective: gloo)": (
        [make_node("n1", gpus=2)],
        [busy("a", "n1", 0)],
        make_job("new", workers=2, milli=500),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_smallest_change_that_would_start_it_is_named(change: str) -> None:
    nodes, jobs, new = CHANGES[change]
    if "rack" in change:
        jobs = [*jobs, busy("b", "n2", 0)]

    plan = schedule(make_snapshot(nodes=nodes, queues=[make_queue("red", guaranteed=8)], jobs=[*jobs, new]))

    words = plan.verdicts["red/new"].would_start_if
    assert words == ("it asked for 1 worker" if "gloo" in change else change)


def test_a_limit_in_the_way_is_named_with_the_missing_amount() -> None:
    queues = [make_queue("red", guaranteed=1, limit=2)]
    jobs = [busy("a", "n1", 0), make_job("new", gpus=2)]

    plan = schedule(make_snapshot(nodes=[make_node("n1", gpus=4)], queues=queues, jobs=jobs))

    assert plan.verdicts["red/new"].would_start_if == "queue red, class any, zone any had 1 GPU more"
