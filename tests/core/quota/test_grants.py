"""Grants beyond a queue's quotas: they add, never take away, never more than was approved, and end by themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.core.model.objects import Quota, TenantQueue, UserLimit
from cotenant.core.model.plan import Admit, Evict, EvictionKind, Plan
from cotenant.core.quota.grants import Grant, GrantLine, NotAdded, with_grants
from cotenant.core.scheduling.scheduler import schedule
from tests.support.clusters import ToyCluster, make_job, make_node, make_queue, make_snapshot

NODES = [
    make_node("east", gpus=8, zone="east"),
    make_node("west", gpus=8, zone="west"),
    make_node("old", gpus=8, gpu_class="A100", zone="east"),
]


def red(*quotas: Quota, **changes: object) -> TenantQueue:
    return replace(make_queue("red"), quotas=quotas, **changes)  # type: ignore[arg-type]


def grant(*lines: GrantLine, key: str = "red/more", since: float = 0.0) -> Grant:
    return Grant(key=key, queue="red", since=since, until=100.0, lines=lines)


H100 = Quota(gpu_class="H100", guaranteed=2_000, limit=4_000)


@pytest.mark.parametrize(
    ("queue", "line", "want"),
    [
        pytest.param(
            red(H100), GrantLine(gpu_class="H100", milli=3_000),
            (Quota(gpu_class="H100", guaranteed=2_000, limit=7_000),), id="a limit is raised",
        ),
        pytest.param(
            red(H100), GrantLine(gpu_class="H100", milli=3_000, guaranteed=1_000),
            (Quota(gpu_class="H100", guaranteed=3_000, limit=7_000),), id="and a guarantee",
        ),
        pytest.param(
            red(Quota(guaranteed=4_000, lendable=1_000, memory_limit_mib=100)),
            GrantLine(milli=2_000, guaranteed=2_000, memory_mib=50),
            (Quota(guaranteed=6_000, lendable=3_000, memory_limit_mib=150),), id="memory too; what is more is lent",
        ),
        pytest.param(
            red(H100), GrantLine(gpu_class="A100", milli=3_000, guaranteed=1_000),
            (H100, Quota(gpu_class="A100", guaranteed=1_000, limit=3_000)), id="a class that nothing was granted of",
        ),
        pytest.param(
            red(), GrantLine(milli=3_000), (Quota(limit=3_000),), id="a queue to which nothing is granted",
        ),
    ],
)  # fmt: skip
def test_a_grant_adds_to_the_quota_line_of_its_class_and_zone(
    queue: TenantQueue, line: GrantLine, want: tuple[Quota, ...]
) -> None:
    found, left_out = with_grants(queue, [grant(line)], has_children=False)

    assert (found.quotas, left_out) == (want, ())


@pytest.mark.parametrize(
    ("queue", "line", "why"),
    [
        pytest.param(
            red(Quota(limit=8_000)), GrantLine(gpu_class="H100", milli=2_000),
            "queue red has no quota for class H100, zone any alone, and one of 2 GPUs would limit what the quota for"
            " all GPUs allows for the same GPUs; ask for more of that quota", id="a wider line counts them",
        ),
        pytest.param(
            red(H100, Quota(zone="east", limit=2_000)), GrantLine(milli=2_000),
            "queue red has no quota for all GPUs alone, and one of 2 GPUs would limit what the quotas for class H100,"
            " zone any and for class any, zone east allow for the same GPUs; ask for more of those quotas",
            id="narrower lines count some of them",
        ),
        pytest.param(
            red(Quota(guaranteed=1_000)), GrantLine(milli=2_000),
            "the quota for all GPUs of queue red has no limit that would be raised; ask for more guaranteed GPUs, if"
            " the queue waits for others", id="nothing limits it",
        ),
        pytest.param(
            red(H100), GrantLine(user="ann", milli=2_000),
            "queue red has no user limit for class any, zone any, so there is nothing to raise for ann",
            id="a user whom nothing bounds",
        ),
        pytest.param(
            red(H100), GrantLine(gpu_class="H100", milli=0),
            "it asks for nothing: 0 GPUs more for class H100, zone any", id="nothing",
        ),
    ],
)  # fmt: skip
def test_a_grant_that_would_narrow_another_line_adds_nothing_and_says_what_to_ask_for(
    queue: TenantQueue, line: GrantLine, why: str
) -> None:
    assert with_grants(queue, [grant(line)], has_children=False) == (queue, (NotAdded("red/more", line, why),))


def test_a_queue_that_only_groups_others_gets_no_grant() -> None:
    line = GrantLine(milli=2_000)

    found, left_out = with_grants(red(), [grant(line)], has_children=True)

    assert found == red()
    assert [one.why for one in left_out] == [
        "queue red has no quotas of its own and only groups others; ask for more of one of them"
    ]


def test_a_guarantee_that_would_narrow_another_one_is_left_out_and_the_limit_is_raised() -> None:
    queue = red(Quota(guaranteed=8_000), Quota(gpu_class="H100", limit=2_000))
    line = GrantLine(gpu_class="H100", milli=2_000, guaranteed=2_000)

    found, left_out = with_grants(queue, [grant(line)], has_children=False)

    assert found.quotas == (Quota(guaranteed=8_000), Quota(gpu_class="H100", limit=4_000))
    assert [one.why for one in left_out] == [
        "the quota for all GPUs guarantees the same GPUs already; ask for a larger guarantee there. The limit is raised"
    ]


LIMITED = Quota(gpu_class="H100", limit=2_000)


@pytest.mark.parametrize(
    ("others", "guaranteed", "has", "left_out"),
    [
        ((Quota(guaranteed=8_000),), 0, 0, 0),
        ((Quota(guaranteed=8_000),), 1, 0, 1),
        ((Quota(limit=8_000),), 2_000, 2_000, 0),
        ((Quota(guaranteed=8_000), Quota(gpu_class="H100", zone="east", limit=1_000)), 2_000, 0, 1),
    ],
    ids=[
        "none is asked for",
        "the least that can be asked for",
        "no other line guarantees any",
        "one of two lines does",
    ],
)
def test_a_guarantee_is_left_out_only_if_it_was_asked_for_and_another_line_has_one(
    others: tuple[Quota, ...], guaranteed: int, has: int, left_out: int
) -> None:
    line = GrantLine(gpu_class="H100", milli=2_000, guaranteed=guaranteed)

    found, not_added = with_grants(red(*others, LIMITED), [grant(line)], has_children=False)

    assert found.quotas == (*others, replace(LIMITED, guaranteed=has, limit=4_000))
    assert len(not_added) == left_out


@pytest.mark.parametrize(
    ("queue", "want"),
    [
        (red(user_limits=(UserLimit(user="ann", limit=1_000),)), (UserLimit(user="ann", limit=3_000),)),
        (
            red(user_limits=(UserLimit(limit=1_000),)),
            (UserLimit(limit=1_000), UserLimit(user="ann", limit=3_000)),
        ),
        (red(user_limit=1_000), (UserLimit(user="ann", limit=3_000),)),
        (
            red(user_limits=(UserLimit(user="ann", memory_limit_mib=70),)),
            (UserLimit(user="ann", memory_limit_mib=100),),
        ),
    ],
    ids=["his own", "that of everybody", "the short form", "of memory alone"],
)
def test_a_grant_to_a_user_raises_the_limit_that_bounds_him(queue: TenantQueue, want: tuple[UserLimit, ...]) -> None:
    found, left_out = with_grants(queue, [grant(GrantLine(user="ann", milli=2_000, memory_mib=30))], has_children=False)

    assert (found.user_limits, left_out) == (want, ())


def test_grants_add_up_in_the_order_in_which_they_were_approved() -> None:
    grants = [
        grant(GrantLine(gpu_class="H100", zone="east", milli=1_000), key="red/b", since=2.0),
        grant(GrantLine(zone="east", milli=5_000), key="red/a", since=3.0),
        grant(GrantLine(gpu_class="H100", zone="east", milli=2_000), key="red/c", since=1.0),
    ]

    found, left_out = with_grants(red(), grants, has_children=False)

    assert found.quotas == (Quota(gpu_class="H100", zone="east", limit=3_000),)
    assert [one.grant for one in left_out] == ["red/a"]


def admitted(plan: Plan) -> list[str]:
    return [action.job for action in plan.actions if isinstance(action, Admit)]


def test_a_grant_that_has_ended_is_given_back_like_a_quota_that_was_lowered() -> None:
    more = grant(GrantLine(milli=4_000, guaranteed=4_000))
    base, blue = red(Quota(guaranteed=4_000)), make_queue("blue", guaranteed=4)
    nodes = [make_node("n1", gpus=8)]
    toy = ToyCluster(nodes, [with_grants(base, [more], has_children=False)[0], blue], [
        make_job("one", gpus=4), make_job("two", gpus=4, at=1),
    ])  # fmt: skip
    toy.cycle()
    jobs = list(toy.snapshot().jobs)
    assert all(job.placement is not None for job in jobs)

    alone = schedule(make_snapshot(nodes=nodes, queues=[base, blue], jobs=jobs))
    asked = make_job("mine", queue="blue", gpus=4, at=2)
    wanted = schedule(make_snapshot(nodes=nodes, queues=[base, blue], jobs=[*jobs, asked]))
    granted = with_grants(base, [more], has_children=False)[0]
    kept = schedule(make_snapshot(nodes=nodes, queues=[granted, blue], jobs=[*jobs, asked]))

    assert alone.actions == ()  # what runs goes on where nobody asks for it
    assert [(action.job, action.kind) for action in wanted.actions if isinstance(action, Evict)] == [
        ("red/two", EvictionKind.RECLAIMED)
    ]
    assert [action for action in kept.actions if isinstance(action, Evict)] == []


CLASSES, ZONES, USERS = st.sampled_from([None, "H100", "A100"]), st.sampled_from([None, "east", "west"]), ("ann", "bob")
AMOUNT = st.integers(0, 4).map(lambda gpus: gpus * 1_000)


@st.composite
def quotas(draw: st.DrawFn) -> Quota:
    guaranteed = draw(AMOUNT)
    limit = draw(st.none() | AMOUNT.map(lambda more: guaranteed + more))
    return Quota(gpu_class=draw(CLASSES), zone=draw(ZONES), guaranteed=guaranteed, limit=limit)


@st.composite
def lines(draw: st.DrawFn) -> GrantLine:
    milli = draw(AMOUNT)
    user = draw(st.sampled_from([None, None, *USERS]))
    guaranteed = 0 if user else draw(st.integers(0, milli // 1_000)) * 1_000
    return GrantLine(gpu_class=draw(CLASSES), zone=draw(ZONES), user=user, milli=milli, guaranteed=guaranteed)


QUEUES = st.builds(
    lambda own, of_users: red(*own, user_limits=tuple(of_users)),
    st.lists(quotas(), max_size=4, unique_by=lambda one: (one.gpu_class, one.zone)),
    st.lists(
        st.builds(UserLimit, user=st.sampled_from([None, *USERS]), gpu_class=CLASSES, zone=ZONES, limit=AMOUNT),
        max_size=3, unique_by=lambda one: (one.user, one.gpu_class, one.zone),
    ),
)  # fmt: skip
GRANTS = st.lists(st.tuples(st.lists(lines(), min_size=1, max_size=3), st.integers(0, 3)), min_size=1, max_size=4).map(
    lambda found: [grant(*one, key=f"red/{number}", since=float(at)) for number, (one, at) in enumerate(found)]
)
BUCKETS = [("H100", "east"), ("H100", "west"), ("A100", "east"), ("A100", "west")]


def allowed(queue: TenantQueue, bucket: tuple[str, str], user: str) -> tuple[int, int]:
    """The most that one user may hold of one bucket where nothing else is held, and how much of it is guaranteed."""
    matching = [one for one in queue.quotas if one.gpu_class in (None, bucket[0]) and one.zone in (None, bucket[1])]
    if not matching:
        return 0, 0
    limits = [one.limit for one in matching if one.limit is not None]
    for one in queue.user_limits:
        named = any(
            (other.user, other.gpu_class, other.zone) == (user, one.gpu_class, one.zone) for other in queue.user_limits
        )
        counts = one.user == user or (one.user is None and not named)
        if counts and one.gpu_class in (None, bucket[0]) and one.zone in (None, bucket[1]) and one.limit is not None:
            limits.append(one.limit)
    return min(limits, default=1 << 40), min((one.guaranteed for one in matching if one.guaranteed), default=0)


@given(queue=QUEUES, grants=GRANTS)
def test_a_grant_takes_nothing_away_and_gives_at_most_what_was_approved(
    queue: TenantQueue, grants: list[Grant]
) -> None:
    found, _ = with_grants(queue, grants, has_children=False)
    approved = sum(line.milli for one in grants for line in one.lines)
    approved_guarantee = sum(line.guaranteed for one in grants for line in one.lines)

    for bucket in BUCKETS:
        for user in (*USERS, "eve"):
            (most, guaranteed), (was, was_guaranteed) = allowed(found, bucket, user), allowed(queue, bucket, user)
            assert was <= most <= was + approved
            assert was_guaranteed <= guaranteed <= was_guaranteed + approved_guarantee
    for one in found.quotas:
        assert one.limit is None or one.guaranteed <= one.limit
        before = next((o for o in queue.quotas if (o.gpu_class, o.zone) == (one.gpu_class, one.zone)), Quota(limit=0))
        own = [
            ln for g in grants for ln in g.lines if (ln.gpu_class, ln.zone, ln.user) == (one.gpu_class, one.zone, None)
        ]
        assert one.limit is None or one.limit <= (before.limit or 0) + sum(line.milli for line in own)
        assert one.guaranteed <= before.guaranteed + sum(line.guaranteed for line in own)


ASKED = st.lists(st.tuples(st.sampled_from(USERS), st.integers(1, 3), CLASSES, ZONES), min_size=1, max_size=6)


@given(queue=QUEUES, grants=GRANTS, asked=ASKED)
def test_a_grant_never_keeps_a_lone_job_from_starting(
    queue: TenantQueue, grants: list[Grant], asked: list[tuple[str, int, str | None, str | None]]
) -> None:
    found, _ = with_grants(queue, grants, has_children=False)
    for user, workers, gpu_class, zone in asked:
        job = make_job(
            "job", user=user, workers=workers, classes=(gpu_class,) if gpu_class else (), zones=(zone,) if zone else ()
        )
        without = schedule(make_snapshot(nodes=NODES, queues=[queue], jobs=[job]))
        with_them = schedule(make_snapshot(nodes=NODES, queues=[found], jobs=[job]))
        assert len(admitted(without)) <= len(admitted(with_them))
