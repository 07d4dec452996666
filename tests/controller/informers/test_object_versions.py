"""What is news of an object, and what is not."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.controller.client.kube import PODS, QUEUES, Document, Listing, Resource, version_of
from cotenant.controller.informers.object_versions import ObjectVersions


def test_a_newer_version_and_another_object_of_the_name_are_news() -> None:
    versions = ObjectVersions()
    seen = [("a", 5), ("a", 5), ("a", 4), ("a", 6), ("b", 2), ("b", 2)]
    assert [versions.note(PODS, "red/p", uid, version) for uid, version in seen] == [
        True, False, False, True, True, False,
    ]  # fmt: skip
    assert versions.note(QUEUES, "red/p", "a", 1), "a resource has names of its own"


@pytest.mark.parametrize("order", list(itertools.permutations([5, 6, 7])))
def test_the_last_version_that_was_news_is_the_newest_in_every_order(order: tuple[int, ...]) -> None:
    versions = ObjectVersions()
    assert [version for version in order if versions.note(PODS, "red/p", "a", version)][-1] == 7


def test_a_uid_that_is_gone_stays_gone_and_frees_the_name_only_where_it_is_its_own() -> None:
    versions = ObjectVersions()
    versions.note(PODS, "red/p", "a", 5)
    versions.note(PODS, "red/p", "b", 6)
    assert not versions.note_gone(PODS, "red/p", "a"), "the name is another object's already"
    assert (versions.is_gone("a"), versions.is_gone("b")) == (True, False)
    assert (versions.is_known(PODS, "red/p", "a"), versions.is_known(PODS, "red/p", "b")) == (False, True)
    assert versions.note_gone(PODS, "red/p", "b")
    assert not versions.is_known(PODS, "red/p", "b")
    assert versions.note_gone(PODS, "red/p", "c"), "of an object that was never seen there is nothing to keep"


def listed(version: int, *present: tuple[str, int]) -> Listing:
    return Listing(
        tuple({"metadata": {"name": uid, "uid": uid, "resourceVersion": str(one)}} for uid, one in present), version
    )


@pytest.mark.parametrize(
    ("listing", "restored", "gone"),
    [
        (listed(10, ("a", 5)), False, ["b", "c"]),
        (listed(7, ("a", 5)), True, ["b", "c", "d"]),
        (listed(0), False, ["a", "b", "c", "d"]),
    ],
    ids=[
        "what a list lacks is gone, unless it is newer",
        "a list that is older than the one before begins another history",
        "of a kind that does not exist, everything is gone, and no history begins",
    ],
)
def test_a_list_says_what_is_gone_and_whether_versions_began_anew(
    listing: Listing, restored: bool, gone: list[str]
) -> None:
    versions = ObjectVersions()

    def put(resource: Resource, document: Document) -> None:
        versions.note(resource, document["metadata"]["uid"], document["metadata"]["uid"], version_of(document))

    versions.take_list(PODS, listed(8), put)
    for uid, version in [("a", 5), ("b", 9), ("c", 10), ("d", 11)]:
        versions.note(PODS, uid, uid, version)
    versions.note(QUEUES, "q", "q", 1)
    assert versions.take_list(PODS, listing, put) == (restored, gone)
    assert versions.is_known(QUEUES, "q", "q")
    assert [versions.is_gone(uid) for uid in gone] == [True] * len(gone)


@pytest.mark.parametrize(
    ("known_before", "restored"),
    [(9, True), (8, False)],
    ids=["only a restore makes a list older than what was known", "what came while it was on its way is only newer"],
)
def test_a_restore_of_a_snapshot_that_is_newer_than_the_last_list_is_noticed(known_before: int, restored: bool) -> None:
    versions = ObjectVersions()
    versions.take_list(PODS, listed(5), lambda resource, document: None)
    for uid, version in [("a", 8), ("b", 9)]:
        versions.note(PODS, uid, uid, version)
    versions.note_gone(PODS, "a", "a")
    listing = replace(listed(8), newer_than=known_before)
    assert versions.take_list(PODS, listing, lambda resource, document: None)[0] is restored
    assert (versions.is_gone("a"), versions.note(PODS, "a", "a", 7)) == (not restored, True)


def test_each_kind_notices_a_restore_by_its_own_list() -> None:
    versions = ObjectVersions()
    for kind in (PODS, QUEUES):
        versions.note(kind, "x", "x", 9)
    for kind in (PODS, QUEUES):
        listing = replace(listed(8), newer_than=versions.newest(kind))
        assert versions.take_list(kind, listing, lambda resource, document: None)[0]
        assert versions.newest(kind) == 0


@given(
    st.lists(st.tuples(st.sampled_from("xy"), st.sampled_from("abc"), st.integers(1, 4), st.booleans()), max_size=12)
)
def test_news_of_an_object_comes_in_the_order_of_its_versions(story: list[tuple[str, str, int, bool]]) -> None:
    versions, last = ObjectVersions(), dict[str, tuple[str, int]]()
    for key, uid, version, gone in story:
        if versions.is_gone(uid):
            continue
        if gone:
            if versions.note_gone(PODS, key, uid):
                last.pop(key, None)
        elif versions.note(PODS, key, uid, version):
            before = last.get(key)
            assert before is None or before[0] != uid or before[1] < version
            last[key] = (uid, version)
    assert {key: uid for key, (uid, _) in last.items()} == {
        key: uid for key in "xy" for uid in "abc" if versions.is_known(PODS, key, uid)
    }
