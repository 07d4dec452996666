"""The best place for a gang in an occupancy: which class, which nodes, under which quotas."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.core.allocation.allocation import allocation_of
from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.search import find, fits, headroom, within_guarantees
from cotenant.core.explain.inadmissible import RequestResolver
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.model.measure import BindingLimit, Measure
from cotenant.core.model.objects import Job, Node, Placement, Quota, TenantQueue
from cotenant.core.placement import BestFit
from cotenant.core.quota.headroom import Headroom
from cotenant.core.quota.tree import QueueTree
from cotenant.core.quota.usage import Usage
from tests.core.worlds.held_amounts import same_ledger
from tests.support.clusters import make_job, make_node, make_placement, make_queue

RED = make_queue("red", guaranteed=8)
MIXED = [make_node("a1", gpus=2, gpu_class="A100"), make_node("h1", gpus=2)]


def occupancy(nodes: list[Node], *queues: TenantQueue) -> Occupancy:
    ledger = Ledger.of(nodes)
    return Occupancy(ledger, Usage(QueueTree.of(queues or (RED,), ledger.inventory)), BestFit())


def request(at: Occupancy, job: Job) -> Request:
    resolved = RequestResolver(at.inventory, at.tree).resolve(job)
    assert isinstance(resolved, Request), resolved
    return resolved


def place(job: Job, nodes: list[Node], *queues: TenantQueue, held: Placement | None = None) -> Placement | None:
    """The place that is found, `held` being held by another job of the first queue. `fits` agrees, nothing moves."""
    at = occupancy(nodes, *queues)
    if held is not None:
        at.allocate(allocation_of(make_job("held", queue=at.tree.queues[0].name), held, at.inventory, at.tree))
    before = at.ledger.copy()
    wanted = request(at, job)
    result = find(at, wanted, wanted.workers)

    assert same_ledger(at.ledger, before)
    if job.preemptible:
        assert fits(at, wanted) is (result is not None)
    if result is None:
        return None
    assert result.allocation == allocation_of(job, result.placement, at.inventory, at.tree)
    return result.placement


@pytest.mark.parametrize(
    ("job", "nodes", "want"),
    [
        pytest.param(
            make_job("a", workers=2),
            [make_node("a1", gpus=1, gpu_class="A100"), make_node("a2", gpus=1, gpu_class="A100"), make_node("h1")],
            make_placement(("h1", [[0], [1]])),
            id="without a preference the fewest nodes decide",
        ),
        pytest.param(
            make_job("a", workers=2),
            [make_node("a1", gpus=4, gpu_class="A100"), make_node("h1", gpus=2)],
            make_placement(("h1", [[0], [1]])),
            id="of as few nodes the scores decide",
        ),
        pytest.param(
            make_job("a", workers=2),
            MIXED,
            make_placement(("a1", [[0], [1]])),
            id="of equal scores the first option",
        ),
        pytest.param(
            make_job("a", workers=2, classes=("H100", "A100")),
            [make_node("a1", gpus=2, gpu_class="A100"), make_node("h1", gpus=1), make_node("h2", gpus=1)],
            make_placement(("h1", [[0]]), ("h2", [[0]])),
            id="the tenant's order of classes goes before the number of nodes",
        ),
        pytest.param(
            make_job("a", workers=2, classes=("H100", "A100")),
            [make_node("a1", gpus=2, gpu_class="A100"), make_node("h1", gpus=1)],
            make_placement(("a1", [[0], [1]])),
            id="the next class where the first is too small",
        ),
        pytest.param(
            make_job("a", workers=3),
            MIXED,
            make_placement(("a1", [[0], [1]]), ("h1", [[0]])),
            id="classes are mixed where no class alone takes the gang",
        ),
        pytest.param(
            make_job("a", workers=3),
            [make_node("m1", gpus=2, gpu_class="A100"), *(make_node(f"h{number}", gpus=1) for number in range(3))],
            make_placement(*((f"h{number}", [[0]]) for number in range(3))),
            id="one class on more nodes goes before a mix",
        ),
        pytest.param(make_job("a", gpus=2), [make_node("h1")], make_placement(("h1", [[0, 1]])), id="two GPUs"),
    ],
)
def test_the_best_place_is(job: Job, nodes: list[Node], want: Placement | None) -> None:
    assert place(job, nodes) == want


@pytest.mark.parametrize(
    ("job", "queues", "found"),
    [
        pytest.param(make_job("a"), (RED,), True, id="where a GPU is free"),
        pytest.param(make_job("a", gpus=2), (RED,), False, id="where too few are free"),
        pytest.param(make_job("a"), (replace(RED, quotas=(Quota(limit=2_000),)),), True, id="just inside the limit"),
        pytest.param(make_job("a"), (replace(RED, quotas=(Quota(limit=1_999),)),), False, id="just above the limit"),
        pytest.param(
            make_job("a"), (replace(RED, quotas=(Quota(zone="", limit=1_999),)),), False, id="above its zone's limit"
        ),
    ],
)
def test_a_place_beside_a_held_gpu_is_found(job: Job, queues: tuple[TenantQueue, ...], found: bool) -> None:
    assert (place(job, [make_node("h1")], *queues, held=make_placement(("h1", [[0]]))) is not None) is found


@pytest.mark.parametrize(
    ("preemptible", "guaranteed", "held", "found"),
    [
        pytest.param(False, 2, False, True, id="inside the guarantee"),
        pytest.param(False, 2, True, False, id="not above it"),
        pytest.param(True, 2, True, True, id="above it, if it may be evicted"),
    ],
)
def test_a_job_that_may_not_be_evicted_finds_a_place(
    preemptible: bool, guaranteed: int, held: bool, found: bool
) -> None:
    job = make_job("a", gpus=2, preemptible=preemptible)
    taken = make_placement(("h1", [[0]])) if held else None

    assert (
        place(job, [make_node("h1", gpus=4)], make_queue("red", guaranteed=guaranteed), held=taken) is not None
    ) is found


@pytest.mark.parametrize(("top", "red"), [(1, 4), (4, 1)])
def test_a_job_that_may_not_be_evicted_stays_inside_every_guarantee_on_its_path(top: int, red: int) -> None:
    at = occupancy(
        [make_node("h1", gpus=4)], make_queue("top", guaranteed=top), make_queue("red", guaranteed=red, parent="top")
    )
    one, two = (request(at, make_job("a", gpus=gpus)) for gpus in (1, 2))

    def inside(wanted: Request) -> bool:
        result = find(at, wanted, 1)
        assert result is not None
        return within_guarantees(at, result.allocation.charge)

    assert (inside(one), inside(two)) == (True, False)


def test_headroom_is_counted_only_if_a_limit_may_bind() -> None:
    free = occupancy([make_node("h1", gpus=4)])
    bound = occupancy([make_node("h1", gpus=4)], make_queue("red", guaranteed=1, limit=5))
    job = make_job("a", gpus=2)

    def counted(at: Occupancy) -> Headroom:
        wanted = request(at, job)
        return headroom(at.usage, wanted, wanted.options[0], None)

    assert counted(free) == Headroom()
    assert counted(bound) == Headroom(2, binding=BindingLimit(Measure.GPU, "queue red, class any, zone any", 5_000, 0))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_job_that_may_not_be_evicted_gets_a_place_inside_its_guarantee_before_a_tighter_one(
    workers: int,
) -> None:
    nodes = [make_node("e", gpus=8, zone="east"), make_node("w", gpus=2, zone="west")]
    queue = replace(RED, quotas=(Quota(zone="east", guaranteed=4_000), Quota(zone="west", limit=4_000)))

    anywhere = place(make_job("a", workers=workers), nodes, queue)
    inside = place(make_job("a", workers=workers, preemptible=False), nodes, queue)

    assert anywhere is not None
    assert inside is not None
    assert ([part.node for part in anywhere.nodes], [part.node for part in inside.nodes]) == (["w"], ["e"])
