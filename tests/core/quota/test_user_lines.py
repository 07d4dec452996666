"""Limits of users: which users a line counts, and that all lines have to allow a request."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.core.gpus.inventory import Inventory
from cotenant.core.model.measure import Amounts, BindingLimit, Measure
from cotenant.core.model.objects import Quota, TenantQueue, UserLimit
from cotenant.core.model.plan import Admit, Plan, Reason
from cotenant.core.quota.headroom import headroom_of
from cotenant.core.quota.tree import QueueTree
from cotenant.core.quota.usage import Charge, Usage
from cotenant.core.scheduling.scheduler import schedule
from tests.support.clusters import make_job, make_node, make_queue, make_snapshot

NODES = [
    make_node("east", gpus=8, zone="east"),
    make_node("west", gpus=8, zone="west"),
    make_node("old", gpus=8, gpu_class="A100", zone="east"),
]
EVERYBODY = UserLimit(limit=2_000)


def admitted(plan: Plan) -> list[str]:
    return [action.job for action in plan.actions if isinstance(action, Admit)]


def red(*limits: UserLimit, quotas: tuple[Quota, ...] = (Quota(guaranteed=24_000),)) -> TenantQueue:
    return replace(make_queue("red"), quotas=quotas, user_limits=limits)


@pytest.mark.parametrize(
    ("limits", "user", "want"),
    [
        ((), "ann", []),
        ((EVERYBODY,), "ann", [2_000]),
        ((EVERYBODY, UserLimit(user="ann", limit=6_000)), "ann", [6_000]),
        ((EVERYBODY, UserLimit(user="ann", limit=1_000)), "ann", [1_000]),
        ((EVERYBODY, UserLimit(user="ann", limit=6_000)), "bob", [2_000]),
        ((EVERYBODY, UserLimit(user="ann", gpu_class="H100", limit=6_000)), "ann", [2_000, 6_000]),
        ((EVERYBODY, UserLimit(user="ann", zone="east", limit=6_000)), "ann", [2_000, 6_000]),
        ((UserLimit(user="bob", limit=1_000),), "ann", []),
    ],
    ids=[
        "nothing said", "everybody", "an exception upwards", "an exception downwards", "somebody else's exception",
        "an exception of one class does not lift the rule for all", "nor one of a zone", "another user alone",
    ],
)  # fmt: skip
def test_a_limit_that_names_the_user_replaces_the_one_for_everybody(
    limits: tuple[UserLimit, ...], user: str, want: list[int]
) -> None:
    tree = QueueTree.of([red(*limits)], Inventory.of(NODES))

    assert [line.limit.limit for line in tree.user_lines(0, user)] == want


def test_the_short_form_limits_everybody_and_may_have_exceptions() -> None:
    queue = replace(red(UserLimit(user="ann", limit=6_000)), user_limit=2_000)
    tree = QueueTree.of([queue], Inventory.of(NODES))

    assert [[line.limit.limit for line in tree.user_lines(0, user)] for user in ("ann", "bob")] == [[6_000], [2_000]]


def test_lines_are_numbered_through_all_queues() -> None:
    queues = [red(EVERYBODY, UserLimit(user="ann", limit=1)), make_queue("none"), make_queue("blue", user_limit=3)]
    tree = QueueTree.of(queues, Inventory.of(NODES))

    assert [[line.index for line in lines] for lines in tree.user_lines_of] == [[0], [], [1, 2]]


def test_user_limits_of_the_queues_above_count_too() -> None:
    top = replace(make_queue("top"), quotas=(Quota(guaranteed=24_000),), user_limits=(UserLimit(limit=3_000),))
    below = replace(red(UserLimit(user="ann", limit=6_000)), parent="top")
    tree = QueueTree.of([top, below], Inventory.of(NODES))

    assert [line.limit.limit for line in tree.user_lines(tree.index["red"], "ann")] == [6_000, 3_000]


GLOBAL, ZONE, CLASS, USER = (
    Quota(guaranteed=24_000, limit=5_000),
    Quota(zone="east", limit=4_000),
    Quota(gpu_class="H100", limit=3_000),
    UserLimit(user="ann", gpu_class="H100", zone="east", limit=2_000),
)


@pytest.mark.parametrize(
    ("workers", "classes", "zones", "user", "starts"),
    [
        (2, ("H100",), ("east",), "ann", True),
        (3, ("H100",), ("east",), "ann", False),
        (3, ("H100",), ("west",), "ann", True),
        (3, ("H100",), ("east",), "bob", True),
        (4, ("H100",), ("east",), "bob", False),
        (4, ("A100",), ("east",), "ann", True),
        (5, ("A100",), ("east",), "bob", False),
    ],
    ids=[
        "all four allow it", "the user's does not", "of another zone it says nothing", "nor of another user",
        "the class does not", "another class", "the zone does not",
    ],
)  # fmt: skip
def test_every_matching_user_limit_has_to_allow_it(
    workers: int, classes: tuple[str, ...], zones: tuple[str, ...], user: str, starts: bool
) -> None:
    queue = red(USER, quotas=(GLOBAL, ZONE, CLASS))
    job = make_job("gang", workers=workers, user=user, classes=classes, zones=zones)

    plan = schedule(make_snapshot(nodes=NODES, queues=[queue], jobs=[job]))

    assert (admitted(plan) == ["red/gang"]) == starts
    assert starts or plan.verdicts["red/gang"].reason is Reason.EXCEEDS_LIMIT


def test_the_refusal_names_metric_scope_limit_used_and_asked() -> None:
    jobs = [
        make_job("a", user="ann", classes=("H100",), zones=("east",), at=1),
        make_job("b", user="ann", workers=2, classes=("H100",), zones=("east",), at=2),
    ]

    plan = schedule(make_snapshot(nodes=NODES, queues=[red(USER)], jobs=jobs))

    verdict = plan.verdicts["red/b"]
    assert verdict.reason is Reason.WAITING_FOR_QUOTA
    assert verdict.message == (
        "Needs 2 workers × 1 GPU of class H100 in zone east, together 2 GPU; user ann in queue red, class H100, zone"
        " east: limit 2 GPU, used 1 GPU, available 1 GPU."
    )
    assert dict(verdict.evidence) == {
        "metric": "GPU per user", "scope": "user ann in queue red, class H100, zone east",
        "limit": 2_000, "used": 1_000, "asked": 2_000, "available": 1_000,
    }  # fmt: skip


def test_a_user_limit_grants_nothing() -> None:
    queue = red(UserLimit(user="ann", limit=8_000), quotas=(Quota(gpu_class="A100", guaranteed=8_000),))
    job = make_job("gang", user="ann", classes=("H100",))

    plan = schedule(make_snapshot(nodes=NODES, queues=[queue], jobs=[job]))

    assert plan.verdicts["red/gang"].reason is Reason.NO_QUOTA


def test_the_memory_of_a_user_has_a_limit_too() -> None:
    usage = Usage(QueueTree.of([red(UserLimit(gpu_class="H100", memory_limit_mib=300))], Inventory.of(NODES)))
    usage.add(Charge(0, "ann", ((("H100", "east"), Amounts(100, 100)),)))

    found = headroom_of(usage, 0, "ann", "H100", Amounts(100, 90))

    scope = "user ann in queue red, class H100, zone any"
    assert (found.workers, found.binding) == (2, BindingLimit(Measure.MEMORY_OF_USER, scope, 300, 100))


def test_a_worker_that_would_take_any_class_stays_inside_the_limit_of_each() -> None:
    limits = (UserLimit(gpu_class="H100", limit=1_000), UserLimit(gpu_class="A100", limit=1_000))
    jobs = [make_job(f"j{number}", user="ann", at=number) for number in range(4)]

    plan = schedule(make_snapshot(nodes=NODES, queues=[red(*limits)], jobs=jobs))

    assert admitted(plan) == ["red/j0", "red/j1"]


SCOPES = st.sampled_from([None, "H100", "A100"]), st.sampled_from([None, "east", "west"])
LIMITS = st.lists(
    st.builds(
        UserLimit,
        user=st.sampled_from([None, "ann", "bob"]), gpu_class=SCOPES[0], zone=SCOPES[1],
        limit=st.integers(0, 4).map(lambda gpus: gpus * 1_000),
    ),
    max_size=4, unique_by=lambda one: (one.user, one.gpu_class, one.zone),
)  # fmt: skip
ASKED = st.lists(
    st.tuples(st.sampled_from(["ann", "bob", "eve"]), st.integers(1, 3), SCOPES[0], SCOPES[1]), min_size=1, max_size=8
)


@given(limits=LIMITS, asked=ASKED)
def test_no_user_ever_holds_more_than_any_line_that_counts_for_him(
    limits: list[UserLimit], asked: list[tuple[str, int, str | None, str | None]]
) -> None:
    jobs = [
        make_job(
            f"j{number}", user=user, workers=workers, at=number,
            classes=(gpu_class,) if gpu_class else (), zones=(zone,) if zone else (),
        )
        for number, (user, workers, gpu_class, zone) in enumerate(asked)
    ]  # fmt: skip
    plan = schedule(make_snapshot(nodes=NODES, queues=[red(*limits)], jobs=jobs))
    users = {job.key: job.user for job in jobs}
    place = {node.name: (node.gpus[0].gpu_class, node.zone) for node in NODES}
    held: dict[tuple[str, str, str], int] = {}
    for action in plan.actions:
        assert isinstance(action, Admit)
        for part in action.placement.nodes:
            key = (users[action.job], *place[part.node])
            held[key] = held.get(key, 0) + 1_000 * sum(len(rank.gpus) for rank in part.ranks)
    for limit in limits:
        for user in ("ann", "bob", "eve"):
            excepted = limit.user is None and any(
                (one.user, one.gpu_class, one.zone) == (user, limit.gpu_class, limit.zone) for one in limits
            )
            if limit.user not in (None, user) or excepted:
                continue
            has = sum(
                amount
                for (whose, gpu_class, zone), amount in held.items()
                if whose == user and limit.gpu_class in (None, gpu_class) and limit.zone in (None, zone)
            )
            assert has <= (limit.limit or 0)
