"""GPUs are free when a pod's processes are gone, whatever is done to the pod's object.

Inputs: commands of the real kubectl. Outputs: who is placed, what the agent reports, which processes live.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cotenant_local.host.errors import LocalError
from tests.live.e2e.tenancy import Tenancy, training_job

pytestmark = pytest.mark.cluster

HEEDLESS = "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(sys.argv); time.sleep(600)"
NEIGHBOUR = "neighbour"


def lives(mark: str) -> bool:
    """True if a process with this argument lives in any container of this machine."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if mark.encode() in arguments and HEEDLESS.encode() in arguments:
            return True
    return False


def start(tenancy: Tenancy, name: str) -> dict[str, Any]:
    """A job on both GPUs that does not heed SIGTERM, and a neighbour that waits for one; the pod of the first."""
    both: dict[str, Any] = {"gpu": {"count": 2}, "gracePeriod": "40s", "retries": 0}
    tenancy.apply(training_job(name, command=["python", "-c", HEEDLESS, f"mark-{name}"], **both))
    tenancy.wait_phase(name, "Running")
    assert lives(f"mark-{name}")
    tenancy.apply(training_job(NEIGHBOUR, "team-b", gpu={"count": 1}))
    tenancy.wait_phase(NEIGHBOUR, "Pending", namespace="team-b")
    return tenancy.get("pod", f"{name}-1-0", "-n", "team-a")


def wait_for_neighbour(tenancy: Tenancy, mark: str) -> None:
    """Wait until the neighbour has its result. It must get no GPU before the other's process is gone."""

    def done() -> bool:
        status = tenancy.job(NEIGHBOUR, "team-b").get("status", {})
        if status.get("placement"):
            assert not lives(mark), "a GPU was handed out while a process was alive on it"
        return bool(status.get("phase") == "Succeeded")

    tenancy.wait(done, seconds=150, what="the neighbour has its result")


def deleted_by_force(tenancy: Tenancy, name: str) -> None:
    """Orphaned with the policies off, and by force as administrators may with the policies on."""
    orphan = ("delete", "trainingjob", name, "-n", "team-a", "--cascade=orphan", "--wait=false")
    with without_policies(tenancy):
        tenancy.wait(lambda: accepted(tenancy, *orphan), seconds=30, what="the policies are off")
    tenancy.cluster.kubectl("delete", "pod", f"{name}-1-0", "-n", "team-a", "--force", "--grace-period=0")


def stripped(tenancy: Tenancy, name: str) -> None:
    """A cluster on which an administrator has turned the policies off."""
    bare = '{"metadata": {"ownerReferences": null, "labels": null, "annotations": null}}'
    patch = ("patch", "pod", f"{name}-1-0", "-n", "team-a", "--type=merge", "-p", bare)
    with without_policies(tenancy):
        tenancy.wait(lambda: accepted(tenancy, *patch), seconds=30, what="the policies are off")
        tenancy.cluster.kubectl("delete", "trainingjob", name, "-n", "team-a", "--cascade=orphan", "--wait=false")


def accepted(tenancy: Tenancy, *command: str) -> bool:
    try:
        tenancy.cluster.kubectl(*command)
    except LocalError:
        return False
    return True


@contextmanager
def without_policies(tenancy: Tenancy) -> Iterator[None]:
    bindings = tenancy.get("validatingadmissionpolicybindings")
    for binding in bindings["items"]:
        binding["metadata"] = {key: binding["metadata"].get(key, {}) for key in ("name", "labels", "annotations")}
    tenancy.cluster.kubectl("delete", "validatingadmissionpolicybindings", "--all")  # the process's grace period runs
    try:
        yield
    finally:
        tenancy.cluster.kubectl("create", "-f", "-", stdin=json.dumps(bindings))


@pytest.mark.parametrize(
    ("attack", "evidence"),
    [pytest.param(deleted_by_force, "Processes", id="deleted by force"), pytest.param(stripped, "Pod", id="stripped")],
)
def test_gpus_are_given_to_the_neighbour_when_the_process_is_gone_and_not_before(
    tenancy: Tenancy, attack: Callable[[Tenancy, str], None], evidence: str
) -> None:
    name = attack.__name__.replace("_", "-")
    pod = start(tenancy, name)
    attack(tenancy, name)
    (node,) = tenancy.get("gpunodes")["items"]

    def named() -> list[Any]:
        holders = tenancy.get("gpunode", node["metadata"]["name"])["status"].get("holders", [])
        return [one for one in holders if one["podUID"] == pod["metadata"]["uid"] and one["evidence"] == evidence]

    assert lives(f"mark-{name}")
    (holder,) = tenancy.wait(named, seconds=15, what="its agent names it by what runs")
    assert len(holder["gpus"]) == 2
    wait_for_neighbour(tenancy, f"mark-{name}")
    tenancy.wait(lambda: not named(), seconds=60, what="its agent no longer names it")
