"""Documents of the old version mean what those of the new one mean: to the parser, and to the real API server, which
stores the new one and hands out both.

`good/v1alpha1.yaml` has documents as people wrote them when there was no other version. They stay as they are.
"""

from __future__ import annotations

import copy
import random
from typing import TYPE_CHECKING, Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant import names
from cotenant.api.conversion.decode import check
from cotenant.api.conversion.yaml_text import read_documents
from cotenant.api.resources.object_meta import ApiVersion
from cotenant.api.schema import crds, kinds
from tests.api.changed_documents import changed, originals
from tests.api.test_corpus import BAD, HERE, parsed

if TYPE_CHECKING:
    pass

NEW, OLD = names.API_VERSIONS
WRITTEN = [one.body for one in read_documents((HERE / "good" / "v1alpha1.yaml").read_text())]
GOOD_BODIES = [*originals(), *WRITTEN]


def as_of(body: dict[str, Any], version: str) -> dict[str, Any]:
    """The same document, as the API server hands it out in another version."""
    return body | {"apiVersion": version}


@pytest.mark.parametrize("resource", kinds.RESOURCES, ids=lambda resource: resource.kind)
def test_both_versions_have_one_shape_so_that_no_webhook_converts(resource: kinds.CustomResource) -> None:
    spec = crds.document(resource)["spec"]
    new, old = spec["versions"]
    flags = ("name", "served", "storage", "deprecated", "deprecationWarning")
    assert [new.get(flag) for flag in flags] == ["v1beta1", True, True, None, None]
    assert [old.get(flag) for flag in flags[:4]] == ["v1alpha1", True, False, True]
    assert f"apiVersion: {NEW}" in old["deprecationWarning"]
    assert {key: new[key] for key in new if key not in flags} == {key: old[key] for key in old if key not in flags}
    assert spec["conversion"] == {"strategy": "None"}


def test_what_was_written_before_is_of_every_kind_and_says_the_old_version() -> None:
    younger = {"Booking", "RemoteCluster"}  # there was no release without v1beta1 that had them
    written_by_people = {one.kind for one in kinds.RESOURCES} - {"LocalQueue"} - younger
    assert {body["kind"] for body in WRITTEN} == written_by_people
    assert {body["apiVersion"] for body in WRITTEN} == {OLD}


def test_the_versions_that_are_read_are_those_that_are_served() -> None:
    assert get_args(get_args(ApiVersion)[0]) == names.API_VERSIONS


@settings(max_examples=300, deadline=None)
@given(body=st.sampled_from(GOOD_BODIES), changes=st.one_of(st.none(), st.integers(0, 2**32)))
def test_a_document_means_the_same_in_both_versions_and_comes_back_unchanged(
    body: dict[str, Any], changes: int | None
) -> None:
    made = copy.deepcopy(body)
    if changes is not None and "spec" in body:
        made = changed(body, random.Random(changes))
    new, old = check(as_of(made, NEW)), check(as_of(made, OLD))
    assert (new.model, new.problems) == (old.model, old.problems)
    assert (new.model is not None) == (not new.problems)
    if new.model is not None:
        assert new.model.model_dump()["api_version"] == NEW
    assert as_of(as_of(as_of(made, OLD), NEW), made["apiVersion"]) == made


def test_what_is_refused_is_refused_in_the_old_version_with_the_same_words() -> None:
    entries = [entry for entry in BAD if NEW in entry.text][::3]
    assert len(entries) > 100
    assert [entry.id for entry in entries if tuple(parsed(entry.text.replace(NEW, OLD))) != entry.says] == []
