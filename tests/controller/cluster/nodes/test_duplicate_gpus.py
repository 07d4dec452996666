"""UUIDs that more than one GPUNode lists."""

from __future__ import annotations

from cotenant.controller.cluster.nodes.duplicate_gpus import DuplicateGpus


def test_a_duplicate_begins_with_its_second_lister_and_ends_with_its_last_but_one() -> None:
    gpus = DuplicateGpus()
    assert gpus.update("n1", ["a", "b"]) == set()
    assert gpus.update("n2", ["b", "c"]) == {"n1"}
    assert gpus.update("n2", ["c", "b"]) == set()
    assert (gpus.others("n1", "a"), gpus.others("n1", "b"), gpus.others("n2", "b")) == ([], ["n2"], ["n1"])
    assert gpus.update("n3", ["b"]) == {"n1", "n2"}
    assert gpus.others("n1", "b") == ["n2", "n3"]
    assert gpus.update("n3", []) == {"n1", "n2"}
    assert gpus.update("n1", ["a"]) == {"n2"}
    assert (gpus.others("n2", "b"), gpus.others("nowhere", "nothing")) == ([], [])
