"""Which ResourceClaims of others hold GPUs, and on which nodes. Pure."""

from __future__ import annotations

from typing import Any

from cotenant.controller.informers.claim_index import ClaimIndex
from tests.controller.builders import claim_document


def test_a_claim_is_found_by_its_nodes_as_long_as_it_holds_something() -> None:
    index, held = ClaimIndex(), claim_document("c", ("n1", "gpu-a", 1024, 100))
    assert index.put("guests/c", claim_document("c")) == frozenset()
    assert index.put("guests/c", held) == {"n1"}
    assert index.put("guests/c", held) == frozenset(), "nothing is other than it was"
    assert index.on_node("n1") == {"guests/c"}
    assert index.put("guests/c", claim_document("c", ("n2", "gpu-b", 1024, 100))) == {"n1", "n2"}
    assert [set(index.on_node(node)) for node in ("n1", "n2")] == [set(), {"guests/c"}]
    assert index.drop("guests/c") == {"n2"}
    assert (index.get("guests/c"), index.on_node("n2"), index.drop("guests/c")) == (None, frozenset(), frozenset())


def test_the_operators_own_claims_are_counted_with_their_jobs() -> None:
    own: dict[str, Any] = claim_document("c", ("n1", "gpu-a", 1024, 100))
    own["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "cotenant"}
    index = ClaimIndex()
    assert index.put("red/c", own) == frozenset()
    assert index.get("red/c") is None
