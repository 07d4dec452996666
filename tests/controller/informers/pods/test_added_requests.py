"""What admission added to the requests of a pod with ranks, and that its node has less for others."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant import names
from cotenant.controller.client.kube import PODS
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.pods.pod_record import read_pod
from tests.controller.builders import contract_of, placement_on, pod_document

PROXY = {"name": "proxy", "resources": {"requests": {"cpu": "100m", "memory": "128Mi", "ephemeral-storage": "64Mi"}}}
TWO_RANKS = placement_on(("n1", 2)).nodes[0]


def document(cpu_per_rank: int | None, chief: int | None = None, **spec: Any) -> dict[str, Any]:
    """A pod of two ranks that requests 2 CPU and 1 GiB, for which the operator wrote so much CPU."""
    return written({"cpuMilli": cpu_per_rank, "chiefCpuMilli": chief}, **spec)


def with_scratch(asked_mib: int | None, requested: str | None, **spec: Any) -> dict[str, Any]:
    """A pod of two ranks that ask for so much scratch space together."""
    made = written({"askedScratchMib": asked_mib}, **spec)
    if requested is not None:
        made["spec"]["containers"][0]["resources"]["requests"]["ephemeral-storage"] = requested
    return made


def written(platform: dict[str, int | None], **spec: Any) -> dict[str, Any]:
    made = pod_document(0, placement=TWO_RANKS)
    grant = contract_of(0, 1, TWO_RANKS)
    grant.platform.update({name: amount for name, amount in platform.items() if amount is not None})
    (container,) = made["spec"]["containers"]
    container["env"] = [{"name": name, "value": text} for name, text in grant.to_environment().items()]
    made["spec"] |= spec
    return made


@pytest.mark.parametrize(
    ("made", "added"),
    [
        (document(1000), (0, 0)),
        (document(None), (0, 0)),
        (document(0), (2000, 0)),
        (document(1500), (0, 0)),
        (document(500, chief=1500), (0, 0)),
        (document(500, chief=1000), (500, 0)),
        (document(1000, initContainers=[PROXY | {"restartPolicy": "Always"}]), (100, 128)),
        (document(1000, overhead={"cpu": "250m", "memory": "160Mi"}), (250, 160)),
    ],
    ids=["as it was written", "of a release that did not say", "a LimitRange's default", "less than was written",
         "a chief beside a worker", "more than both ask for", "a sidecar", "the overhead of a RuntimeClass"],
)  # fmt: skip
def test_what_was_added_is_told_apart_from_what_was_written(made: dict[str, Any], added: tuple[int, int]) -> None:
    found = read_pod(made)
    assert found.added[:2] == added


@pytest.mark.parametrize(
    ("made", "requested", "added"),
    [
        (with_scratch(0, None), 0, 0),
        (with_scratch(200, "200Mi"), 200, 0),
        (with_scratch(0, "50Gi"), 51_200, 51_200),
        (with_scratch(None, "200Mi"), 200, 0),
        (with_scratch(200, "200Mi", overhead={"ephemeral-storage": "1Gi"}), 1_224, 1_024),
        (with_scratch(200, "200Mi", initContainers=[
            {"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"ephemeral-storage": "100Mi"}}}
        ]), 300, 100),
    ],
    ids=["none", "as the job asks", "a quota counts it, or a LimitRange's default", "of a release that did not say",
         "the overhead of a RuntimeClass", "a sidecar"],
)  # fmt: skip
def test_scratch_space_that_no_job_asked_for_is_told_apart(made: dict[str, Any], requested: int, added: int) -> None:
    found = read_pod(made)
    assert (found.requests.scratch_mib, found.added.scratch_mib) == (requested, added)


def test_what_was_added_is_taken_from_the_node_until_the_pod_has_ended() -> None:
    cache, loads = ObjectCache(), []
    made = document(0, containers=[*document(0)["spec"]["containers"], PROXY])
    for version, phase in (("10", "Pending"), ("11", "Running"), ("12", "Failed")):
        made["metadata"]["resourceVersion"] = version
        cache.put(PODS, made | {"status": {"phase": phase}})
        load = cache.pods.load["n1"]
        loads.append((load.cpu_milli, load.memory_mib, load.scratch_mib, load.pods))
    assert loads == [(2100, 128, 64, 0), (2100, 128, 64, 0), (0, 0, 0, 0)]
    assert "n1" in cache.pop_changes().nodes
    assert [one["name"] for one in made["spec"]["containers"]] == [names.CONTAINER, "proxy"]
