"""What is known of an object and of what it owns, from sources that overtake each other."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.controller.client.kube import CONFIG_MAPS, SECRETS, Document, Listing
from cotenant.controller.composites.owned_objects import OwnedObjects
from tests.controller.composites.pairs import PAIRS, Pair


def document(
    name: str, version: int, *, uid: str = "", owner: str = "", owner_version: str = "cotenant.dev/v1beta1", **more: Any
) -> Document:
    reference = {
        "apiVersion": owner_version,
        "kind": "Pair",
        "name": owner.partition("#")[0],
        "uid": owner,
        "controller": True,
    }
    metadata = {"name": name, "namespace": "red", "uid": uid or name, "resourceVersion": str(version)}
    return {"metadata": metadata | ({"ownerReferences": [reference]} if owner else {}), **more}


def known(objects: OwnedObjects, key: str = "red/a") -> tuple[str, ...] | None:
    found = objects.observed(key)
    return None if found is None else tuple(found.of(CONFIG_MAPS))


def new_objects() -> tuple[OwnedObjects, list[str]]:
    looked_at: list[str] = []
    return OwnedObjects(Pair(), looked_at.append), looked_at


def test_an_owner_is_looked_at_when_what_it_owns_comes_changes_or_goes() -> None:
    objects, looked_at = new_objects()
    objects.put(CONFIG_MAPS, document("a-0", 1, owner="a#1"))
    objects.put(PAIRS, document("a", 2, uid="a#1"))
    assert known(objects) == ("a-0",)
    objects.put(CONFIG_MAPS, document("a-0", 3, owner="a#1"), deleted=True)
    assert (known(objects), looked_at) == ((), ["red/a", "red/a", "red/a"])


def test_what_is_older_or_of_no_concern_is_dropped() -> None:
    objects, looked_at = new_objects()
    objects.put(PAIRS, document("a", 5, spec="new"))
    objects.put(PAIRS, document("a", 4, spec="old"))
    objects.put(CONFIG_MAPS, document("other", 6))
    objects.put(SECRETS, document("a-0", 7, owner="a"))
    found = objects.observed("red/a")
    assert found
    assert (found.document["spec"], looked_at) == ("new", ["red/a"])


@pytest.mark.parametrize(
    ("version", "owned"),
    [
        ("cotenant.dev/v1alpha1", ("a-0",)),
        ("cotenant.dev/v1beta1", ("a-0",)),
        ("cotenant.dev/v1", ()),
        ("v1alpha1", ()),
    ],
)
def test_an_owner_may_be_named_in_any_version_that_is_served(version: str, owned: tuple[str, ...]) -> None:
    objects, _ = new_objects()
    objects.put(CONFIG_MAPS, document("a-0", 1, owner="a#1", owner_version=version))
    objects.put(PAIRS, document("a", 2, uid="a#1"))
    assert known(objects) == owned


def test_what_belongs_to_an_owner_of_the_same_name_before_is_not_its_own() -> None:
    objects, _ = new_objects()
    objects.put(PAIRS, document("a", 1, uid="a#2"))
    objects.put(CONFIG_MAPS, document("a-0", 2, owner="a#1"))
    objects.put(CONFIG_MAPS, document("a-1", 3, owner="a#2"))
    assert known(objects) == ("a-1",)


def test_what_loses_its_owner_is_not_its_own_any_more() -> None:
    objects, looked_at = new_objects()
    objects.put(PAIRS, document("a", 1, uid="a#1"))
    objects.put(CONFIG_MAPS, document("a-0", 2, owner="a#1"))
    objects.put(CONFIG_MAPS, document("a-0", 3))
    assert (known(objects), looked_at) == ((), ["red/a"] * 3)


def test_a_list_says_what_is_gone_and_all_kinds_listed_is_synced() -> None:
    objects, _ = new_objects()
    objects.put(PAIRS, document("a", 1, uid="a#1"))
    objects.put(CONFIG_MAPS, document("a-0", 2, owner="a#1"))
    objects.put(CONFIG_MAPS, document("a-1", 9, owner="a#1"))
    objects.replace(CONFIG_MAPS, Listing((), 5))
    assert (known(objects), objects.synced) == (("a-1",), False)
    objects.replace(PAIRS, Listing((), 5))
    assert (known(objects), objects.synced, list(objects)) == (None, True, [])


def test_a_restore_of_etcd_makes_everything_news() -> None:
    objects, looked_at = new_objects()
    for version, spec in ((500, "lost"), (300, "restored")):
        objects.replace(PAIRS, Listing((document("a", version, uid="a#1", spec=spec),), version + 1))
        objects.replace(CONFIG_MAPS, Listing((document("a-0", version, owner="a#1"),), version + 1))
        if version == 500:
            objects.put(CONFIG_MAPS, document("a-0", 502, owner="a#1"), deleted=True)
    found = objects.observed("red/a")
    assert found
    assert (found.document["spec"], known(objects), looked_at[-2:]) == ("restored", ("a-0",), ["red/a"] * 2)
