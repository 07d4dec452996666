"""Ids that can be given: all of root's, a range's, or the one of an ordinary user."""

import pytest

from cotenant_local.runtime.isolation.id_map import IdMap

ALL = IdMap(((0, 1 << 32),), ((0, 1 << 32),), may_set_groups=True)
RANGE = IdMap(((0, 1), (1, 65535)), ((0, 1), (1, 65535)), may_set_groups=True)
ONE = IdMap(((0, 1),), ((0, 1),), may_set_groups=False)


@pytest.mark.parametrize(
    ("ids", "has", "lacks"),
    [(ALL, [(0, 0), (1 << 31, 5)], []), (RANGE, [(0, 65535)], [(65536, 0), (0, 65536)]), (ONE, [(0, 0)], [(1, 0)])],
    ids=["all", "range", "one"],
)
def test_an_id_is_there_when_a_range_has_it(
    ids: IdMap, has: list[tuple[int, int]], lacks: list[tuple[int, int]]
) -> None:
    assert [ids.has(*pair) for pair in has + lacks] == [True] * len(has) + [False] * len(lacks)
    assert ids.single is (ids is ONE)


@pytest.mark.parametrize(
    ("ids", "given", "missing"), [(ALL, [5, 70000], []), (RANGE, [5], [70000]), (ONE, [], [5, 70000])]
)
def test_groups_are_given_as_far_as_they_can_be(ids: IdMap, given: list[int], missing: list[int]) -> None:
    assert ids.groups([5, 70000]) == (given, missing)
