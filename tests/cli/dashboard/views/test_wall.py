"""The wall: parts as wide as shares, once for each job, and what a tenant without nodes sees."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.dashboard.markup import markup
from cotenant.dashboard.reading.rows import GpuHold, GpuNodeRow, HeldShare, JobRow, WallGpu
from cotenant.dashboard.views.tenants import COLOURS, Palette
from cotenant.dashboard.views.wall import WIDE, WallView, wall_view
from cotenant.dashboard.views.wish import Wish


def gpu(uuid: str, **more: object) -> WallGpu:
    plain = {
        "index": 0,
        "gpu_class": "H100",
        "memory_mib": 1000,
        "healthy": True,
        "health": "",
        "is_drained": False,
        "parent": "",
        "utilization": None,
    }
    return WallGpu(uuid=uuid, **(plain | more))  # type: ignore[arg-type]


def hold(uuid: str, job: str, memory: int = 1000, milli: int = 0, namespace: str = "red") -> GpuHold:
    return GpuHold(uuid=uuid, namespace=namespace, job=job, memory_mib=memory, milli=milli)


def placed(name: str, *parts: tuple[str, int, int]) -> JobRow:
    shares = tuple(
        HeldShare(node="n", rank=0, uuid=uuid, memory_mib=memory, milli=milli) for uuid, memory, milli in parts
    )
    return JobRow(namespace="red", name=name, shares=shares)


def wall(nodes: list[GpuNodeRow], jobs: list[JobRow], wish: Wish | None = None) -> WallView:
    return wall_view(nodes, jobs, wish or Wish(), Palette())


def parts_of(view: WallView) -> list[tuple[str, float, float]]:
    return [(part.job, part.x, part.width) for node in view.nodes.items for one in node.bricks for part in one.parts]


def test_a_part_is_as_wide_as_its_share_and_a_job_has_one_of_each_gpu() -> None:
    node = GpuNodeRow(name="n", gpus=(gpu("g"),), holds=(hold("g", "a", 250), hold("g", "b", 300)))
    assert parts_of(wall([node], [placed("a", ("g", 125, 0), ("g", 125, 0))])) == [("a", 0, 25), ("b", 25, 30)]


def test_whoever_sees_no_nodes_sees_the_gpus_of_their_jobs() -> None:
    view = wall([], [placed("a", ("g1", 1000, 1000), ("g2", 500, 500))])
    assert [node.name for node in view.nodes.items] == ["GPUs of jobs that you may read"]
    assert parts_of(view) == [("a", 0, 100), ("a", 0, 50)]


def test_gpus_of_a_class_that_the_reader_may_not_see_are_only_counted() -> None:
    view = wall([], [placed("a", ("g1", 1000, 1000), ("g2", 500, 500))])
    page = {"page": {"title": "GPUs"}, "notes": [], "is_loading": False, "wish": Wish(), "colour": lambda _: "t0"}
    assert '<span class="sum">2 GPUs</span>' in markup("wall.html", page | {"view": view})


@pytest.mark.parametrize(
    ("more", "strangers", "state"),
    [
        ({}, (), "fine"),
        ({"health": "Slow: x"}, (), "slow"),
        ({"healthy": False, "health": "Xid 79"}, (), "ill"),
        ({"healthy": False, "is_drained": True}, (), "drained"),
        ({}, ("g",), "stranger"),
    ],
)
def test_a_brick_says_how_its_gpu_is(more: dict[str, object], strangers: tuple[str, ...], state: str) -> None:
    node = GpuNodeRow(name="n", gpus=(gpu("g", **more),), strangers=frozenset(strangers))
    assert [one.bricks[0].state for one in wall([node], []).nodes.items] == [state]


@pytest.mark.parametrize(
    ("wish", "names"),
    [
        (Wish(), ["busy", "free", "ill"]),
        (Wish(show="idle"), ["free"]),
        (Wish(show="ill"), ["ill"]),
        (Wish(text="red/a"), ["busy"]),
        (Wish(text="fre"), ["free"]),
        (Wish(text="h100"), ["busy", "free", "ill"]),
    ],
)
def test_a_wall_is_filtered_and_its_sums_are_of_all(wish: Wish, names: list[str]) -> None:
    nodes = [
        GpuNodeRow(name="ill", gpus=(gpu("g3", healthy=False, health="Xid 79"),), state="Ready"),
        GpuNodeRow(name="free", gpus=(gpu("g2"),), state="Ready"),
        GpuNodeRow(name="busy", gpus=(gpu("g1"),), holds=(hold("g1", "a"),), state="Ready"),
    ]
    view = wall(nodes, [], wish)
    assert [node.name for node in view.nodes.items] == names
    assert [(one.gpu_class, one.gpus, one.idle, one.ill) for one in view.classes] == [("H100", 3, 1, 1)]


@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 3000)), max_size=40))
def test_parts_stay_inside_their_brick_whatever_nodes_say(amounts: list[tuple[int, int]]) -> None:
    holds = tuple(hold("g", f"j{number}", memory, milli) for number, (memory, milli) in enumerate(amounts))
    parts = parts_of(wall([GpuNodeRow(name="n", gpus=(gpu("g"),), holds=holds)], []))
    assert all(x >= 0 and width >= 0 and x + width <= WIDE + 0.1 for _, x, width in parts)


def test_tenants_have_colours_of_their_own_while_there_are_enough() -> None:
    palette = Palette()
    given_ = [palette.colour(f"team-{number}") for number in range(COLOURS)]
    assert len(set(given_)) == COLOURS
    assert palette.colour("team-0") == given_[0]
    assert palette.colour("one-too-many") in given_
