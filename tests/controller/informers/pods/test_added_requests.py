"""What admission added to the requests of a pod with ranks, and that its node has less for others."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant import names
from cotenant.controller.client.kube import PODS
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.pods.pod_record import read_pod
from tests.controller.builders import contract_of, placement_on, pod_document

PROXY = {"name": "proxy", "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}
TWO_RANKS = placement_on(("n1", 2)).nodes[0]


def document(cpu_per_rank: int | None, chief: int | None = None, **spec: Any) -> dict[str, Any]:
    """A pod of two ranks that requests 2 CPU and 1 GiB, for which the operator wrote so much CPU."""
    made = pod_document(0, placement=TWO_RANKS)
    grant = contract_of(0, 1, TWO_RANKS)
    if cpu_per_rank is not None:
        grant.platform["cpuMilli"] = cpu_per_rank
    if chief is not None:
        grant.platform["chiefCpuMilli"] = chief
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
    assert (found.added_cpu_milli, found.added_memory_mib) == added


def test_what_was_added_is_taken_from_the_node_until_the_pod_has_ended() -> None:
    cache, loads = ObjectCache(), []
    made = document(0, containers=[*document(0)["spec"]["containers"], PROXY])
    for version, phase in (("10", "Pending"), ("11", "Running"), ("12", "Failed")):
        made["metadata"]["resourceVersion"] = version
        cache.put(PODS, made | {"status": {"phase": phase}})
        load = cache.pods.load["n1"]
        loads.append((load.cpu_milli, load.memory_mib, load.pods))
    assert loads == [(2100, 128, 0), (2100, 128, 0), (0, 0, 0)]
    assert "n1" in cache.pop_changes().nodes
    assert [one["name"] for one in made["spec"]["containers"]] == [names.CONTAINER, "proxy"]
