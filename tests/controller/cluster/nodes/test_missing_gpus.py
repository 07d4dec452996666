"""GPUs that an agent does not list any more are counted for a while, as GPUs that take nothing new."""

from __future__ import annotations

from cotenant.controller.cluster.nodes.missing_gpus import KEPT_S, MissingGpus
from cotenant.core.model.objects import Gpu


def gpu(uuid: str, *, since: float | None = None) -> Gpu:
    return Gpu(uuid=uuid, gpu_class="H100", memory_mib=81_920, index=0, healthy=since is None, missing_since=since)


def test_a_gpu_is_kept_from_the_moment_at_which_it_was_first_missed() -> None:
    missing = MissingGpus()
    assert missing.update("n1", (gpu("a"), gpu("b")), 0.0) == (gpu("a"), gpu("b"))
    assert missing.update("n1", (gpu("a"),), 10.0) == (gpu("a"), gpu("b", since=10.0))
    assert missing.update("n1", (gpu("a"),), 20.0) == (gpu("a"), gpu("b", since=10.0))
    assert missing.update("n1", (gpu("a"), gpu("b")), 30.0) == (gpu("a"), gpu("b"))


def test_it_is_forgotten_at_the_end_of_its_time_and_not_before() -> None:
    missing = MissingGpus()
    missing.update("n1", (gpu("a"),), 0.0)
    missing.update("n1", (), 10.0)
    assert (missing.expired(10.0 + KEPT_S - 1), missing.expired(10.0 + KEPT_S)) == (set(), {"n1"})
    assert missing.update("n1", (), 10.0 + KEPT_S - 1) == (gpu("a", since=10.0),)
    assert missing.update("n1", (), 10.0 + KEPT_S) == ()
    assert missing.expired(10.0 + KEPT_S) == set()


def test_a_gpu_that_another_node_lists_is_that_nodes() -> None:
    missing = MissingGpus()
    missing.update("n1", (gpu("a"), gpu("b")), 0.0)
    missing.update("n1", (gpu("b"),), 10.0)
    assert missing.update("n2", (gpu("a"),), 20.0) == (gpu("a"),)
    assert missing.expired(20.0) == {"n1"}
    assert missing.update("n1", (gpu("b"),), 20.0) == (gpu("b"),)


def test_a_gpu_that_is_listed_is_never_over() -> None:
    missing = MissingGpus()
    missing.update("n1", (gpu("a"),), 0.0)
    assert missing.expired(10 * KEPT_S) == set()
