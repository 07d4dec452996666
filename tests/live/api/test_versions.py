"""Documents of the old version mean what those of the new one mean: to the parser, and to the real API server, which
stores the new one and hands out both.

`good/v1alpha1.yaml` has documents as people wrote them when there was no other version. They stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from cotenant.api.conversion.decode import check
from tests.api.test_corpus import BAD

if TYPE_CHECKING:
    from tests.live.api.conftest import Answer, Server

from tests.api.test_versions import GOOD_BODIES, NEW, OLD, WRITTEN, as_of
from tests.live.api.test_corpus import kind_of


def core(answer: Answer) -> dict[str, Any]:
    """What a document says, without its version and without what every request makes anew."""
    metadata = answer.body["metadata"]
    stamps = {"uid", "creationTimestamp", "managedFields", "resourceVersion"}
    stamps |= {"name"} if "generateName" in metadata else set()
    return answer.body | {"apiVersion": "", "metadata": {key: metadata[key] for key in metadata.keys() - stamps}}


@pytest.mark.cluster
def test_the_api_server_takes_good_documents_in_either_version_and_warns_of_the_old(server: Server) -> None:
    for body in GOOD_BODIES:
        new, old = (server.dry_run(as_of(body, version), body["kind"], version) for version in (NEW, OLD))
        assert (new.status, old.status) == (201, 201), (body, new.message, old.message)
        assert core(new) == core(old)
        assert "deprecated" not in new.warning
        assert f"{OLD} {body['kind']} is deprecated; write apiVersion: {NEW}" in old.warning


@pytest.mark.cluster
def test_the_api_server_refuses_bad_documents_in_either_version_with_the_same_words(server: Server) -> None:
    for entry in [entry for entry in BAD if NEW in entry.text][::9]:
        texts = {NEW: entry.text, OLD: entry.text.replace(NEW, OLD)}
        new, old = (server.dry_run(text, kind_of(text), version) for version, text in texts.items())
        said = [answer.message.replace("v1alpha1", "v1beta1") for answer in (old, new)]
        assert (old.status, said[0]) == (new.status, said[1]), entry.id


@pytest.fixture
def stored(server: Server) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """One object of every kind, written in the old version: (path below a version, the document)."""
    first = {body["kind"]: body for body in reversed(WRITTEN)}
    made = []
    for kind, body in first.items():
        mine = body | {"metadata": {"name": f"of-{OLD.rpartition('/')[2]}", "labels": {"team": "a"}}}
        answer = server.create(mine, kind, OLD)
        assert answer.status == 201, answer.message
        made.append((f"{server.collection(kind)}/{mine['metadata']['name']}", mine))
    yield made
    for path, _ in made:
        server.call("DELETE", f"/apis/{NEW}/{path}")


@pytest.mark.cluster
def test_an_object_that_is_stored_reads_the_same_in_both_versions(
    server: Server, stored: list[tuple[str, dict[str, Any]]]
) -> None:
    assert len(stored) == len({body["kind"] for body in WRITTEN})
    for path, body in stored:
        new, old = (server.call("GET", f"/apis/{version}/{path}") for version in (NEW, OLD))
        assert [new.body["apiVersion"], old.body["apiVersion"]] == [NEW, OLD]
        assert new.body | {"apiVersion": OLD} == old.body
        assert check(new.body).model == check(old.body).model
        assert new.body["metadata"]["labels"] == body["metadata"]["labels"]


@pytest.mark.cluster
def test_who_applies_the_old_manifest_goes_on_owning_it_with_the_new_one(server: Server) -> None:
    path = "namespaces/default/trainingjobs/applied"
    spec = {"queue": "team-a", "gpu": {"count": 1}, "runtime": {"entrypoint": "train:main"}}
    for version, more in ((OLD, {"retries": 2, "maxRuntime": "2h"}), (NEW, {"retries": 3})):
        body = {"apiVersion": version, "kind": "TrainingJob", "metadata": {"name": "applied"}, "spec": spec | more}
        where = f"/apis/{version}/{path}?fieldManager=tenant"
        answer = server.call("PATCH", where, body, kind="application/apply-patch+yaml")
        assert answer.status in {200, 201}, answer.message
    found = server.call("GET", f"/apis/{OLD}/{path}").body
    server.call("DELETE", f"/apis/{NEW}/{path}")
    assert found["spec"]["retries"] == 3
    assert "maxRuntime" not in found["spec"], "what the manifest says no longer is gone"
    owners = [(one["manager"], one["apiVersion"]) for one in found["metadata"]["managedFields"]]
    assert owners == [("tenant", NEW)]
