"""Cost of one cycle in calls: equal on every machine, unlike time."""

from __future__ import annotations

import pytest

from cotenant.core.policy import DEFAULT
from cotenant.core.scheduling import admission
from cotenant.core.scheduling.scheduler import decide, schedule
from cotenant.core.state.facts import NodeObserved
from tests.support.call_count import calls
from tests.support.clusters import ToyCluster, make_job, make_node, make_queue


def cost(*, jobs: int, asked: int, elastic: bool = True, newcomer: bool = True, nodes: int = 4) -> int:
    """Calls of a cycle on nodes of 8 GPUs whose jobs each asked for so many shares of a hundredth of a GPU; another
    queue's job, which is guaranteed what they borrow, has come since."""
    hosts = [make_node(f"n{number}", gpus=8, cpu_milli=10**9, host_mib=10**9) for number in range(nodes)]
    toy = ToyCluster(hosts, [make_queue("red", limit=1_000), make_queue("blue", guaranteed=8)])
    for number in range(jobs):
        workers = (1, asked) if elastic else asked
        toy.observe(make_job(f"j{number}", milli=10, workers=workers, distinct_gpus=False, at=number, cpu_milli=number))
    toy.settle()
    if newcomer:
        toy.observe(make_job("owner", queue="blue", workers=2))
    snapshot = toy.snapshot()
    return calls(lambda: schedule(snapshot))


@pytest.mark.parametrize("newcomer", [False, True])
@pytest.mark.parametrize("elastic", [False, True])
def test_a_cycle_costs_the_same_whatever_number_of_workers_is_asked_for(elastic: bool, newcomer: bool) -> None:
    """3,200 such shares exist; a job that asks for ten times as many holds no more of them."""
    wanted, absurd = (cost(jobs=20, asked=asked, elastic=elastic, newcomer=newcomer) for asked in (4_000, 1_000_000))

    assert absurd <= wanted * 1.05


def test_a_job_costs_a_cycle_the_same_however_many_others_there_are() -> None:
    few, many = (cost(jobs=jobs, asked=10_000) for jobs in (40, 160))

    assert many <= 4 * few


def test_the_cost_of_a_cycle_grows_linearly_with_held_workers() -> None:
    few, many = (cost(jobs=1, asked=100_000, nodes=nodes) for nodes in (1, 8))

    assert many <= 8 * few


def test_with_an_overdue_job_a_changed_node_costs_no_walk_over_running_jobs() -> None:
    def changed_cycle(nodes: int) -> int:
        hosts = [make_node(f"n{number}", gpus=8) for number in range(nodes)]
        toy = ToyCluster(hosts, [make_queue("red", guaranteed=8 * nodes)])
        for number in range(8 * nodes):
            toy.observe(make_job(f"j{number}", at=number))
        toy.settle()
        toy.observe(make_job("waits", workers=2))
        toy.now += DEFAULT.collect_after_s
        last = decide(toy.snapshot())
        toy.state.observe(NodeObserved(make_node("n0", gpus=8, cpu_milli=96_100)))
        snapshot = toy.snapshot()
        return calls(lambda: decide(snapshot, DEFAULT, last))

    few, many = changed_cycle(10), changed_cycle(60)

    assert many <= few + 400, "400 more jobs run"


@pytest.mark.parametrize(
    ("waiting", "want"),
    [
        pytest.param([("H100", 0)], 1, id="one"),
        pytest.param([("H100", 0)] * 9, 1, id="the first of equal ones"),
        pytest.param([("H100", number) for number in range(9)], 4, id="the first four of different ones"),
        pytest.param([("H100", number) for number in range(9)] + [("A100", 0)], 5, id="four of each class"),
    ],
)
def test_of_overdue_jobs_without_a_place_to_reserve_one_is_sought_for(
    waiting: list[tuple[str, int]], want: int
) -> None:
    toy = ToyCluster(
        [make_node("n", gpus=8), make_node("old", gpus=8, gpu_class="A100")], [make_queue("red", guaranteed=16)]
    )
    for number in range(16):
        toy.observe(make_job(f"j{number}", at=number))
    toy.settle()
    for number, (name, cpu_milli) in enumerate(waiting):
        toy.observe(make_job(f"w{number}", workers=2, at=toy.now, cpu_milli=cpu_milli, classes=(name,)))
    toy.now += DEFAULT.collect_after_s
    snapshot, sought = toy.snapshot(), list[object]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(admission, "collect", lambda *args, **_: sought.append(args))
        schedule(snapshot)

    assert len(sought) == want
