"""What the ranks see from inside is exactly what was granted, and what is granted is never more than there is."""

import json
from collections import Counter
from typing import Any

import pytest

from tests.live.e2e.tenancy import Document, Tenancy, training_job

pytestmark = pytest.mark.cluster

SEES = """
import json, os, sys
names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
print("SEES " + json.dumps({name: os.environ.get(name) for name in names}), flush=True)
"""


def granted(job: Document) -> dict[int, list[str]]:
    """rank → UUIDs, as the placement says."""
    return {
        rank["rank"]: [gpu["uuid"] for gpu in rank["gpus"]]
        for node in job["status"]["placement"]["nodes"]
        for rank in node["ranks"]
    }


def held_mib(jobs: list[Document]) -> Counter[str]:
    held: Counter[str] = Counter()
    for job in jobs:
        status = job.get("status", {})
        if status.get("phase") in {"Starting", "Running", "Evicting"}:
            for node in (status.get("placement") or {"nodes": []})["nodes"]:
                for rank in node["ranks"]:
                    for gpu in rank["gpus"]:
                        held[gpu["uuid"]] += gpu["memoryMiB"]
    return held


def seen(log: str) -> list[dict[str, Any]]:
    return [json.loads(line.split("SEES ", 1)[1]) for line in log.splitlines() if "SEES " in line]


@pytest.mark.parametrize(
    ("workers", "gpu"),
    [(1, {"memoryFraction": "0.4"}), (2, {"memoryFraction": "0.4"}), (1, {"count": 2}), (2, {"count": 1})],
    ids=str,
)
def test_cuda_visible_devices_in_every_rank_is_exactly_its_placement(
    tenancy: Tenancy, workers: int, gpu: dict[str, Any]
) -> None:
    tenancy.apply(
        training_job("looks", workers=workers, gpu=gpu, command=["python", "-c", SEES + "import time; time.sleep(6)"])
    )
    job = tenancy.wait_phase("looks", "Running")
    placement = granted(job)
    pod = job["metadata"]["name"]
    (name,) = [
        p["metadata"]["name"] for p in tenancy.get("pods", "-n", "team-a", "-l", f"cotenant.dev/job={pod}")["items"]
    ]
    said = tenancy.wait(
        lambda: found if len(found := seen(tenancy.logs(name))) == workers else None,
        what="every rank says what it sees",
    )
    # One worker with several GPUs is no rank of torchrun's, so it has no RANK.
    assert {int(rank["RANK"] or 0): rank["CUDA_VISIBLE_DEVICES"].split(",") for rank in said} == placement
    assert {rank["WORLD_SIZE"] or "1" for rank in said} == {str(workers)}
    uuids = [uuid for uuids in placement.values() for uuid in uuids]
    assert len(set(uuids)) == len(uuids), "ranks of one job are on distinct GPUs"


def test_the_third_of_three_shares_waits_and_runs_when_one_ends(tenancy: Tenancy) -> None:
    share = {"memoryFraction": "0.4", "sharing": "Any"}
    for name, namespace in (("one", "team-a"), ("two", "team-b")):
        tenancy.apply(training_job(name, namespace, workers=2, gpu=share, command=["sleep", "600"]))
        tenancy.wait_phase(name, "Running", namespace=namespace)
    tenancy.apply(training_job("three", workers=2, gpu=share, command=["python", "-c", "print()"]))

    def waits() -> Document | None:
        pending: Document | None = tenancy.job("three").get("status", {}).get("pending")
        return pending

    pending = tenancy.wait(waits, what="the third job has a verdict")
    assert pending["reason"] == "WaitingForGPUs"
    assert "0.2" in pending["message"] or "0.4" in pending["message"]
    capacity = {gpu["uuid"]: gpu["memoryMiB"] for gpu in tenancy.get("gpunodes")["items"][0]["status"]["gpus"]}
    assert all(mib <= capacity[uuid] for uuid, mib in held_mib(tenancy.jobs()).items())
    tenancy.cluster.kubectl("delete", "trainingjob", "two", "-n", "team-b")
    tenancy.wait_phase("three", "Succeeded")


def test_pods_are_restricted_and_carry_no_account(tenancy: Tenancy) -> None:
    tenancy.apply(training_job("plain", command=["sleep", "600"]))
    tenancy.wait_phase("plain", "Running")
    (pod,) = tenancy.get("pods", "-n", "team-a")["items"]
    spec, (container,) = pod["spec"], pod["spec"]["containers"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert "nodeName" not in json.dumps(pod["metadata"].get("annotations", {}))
    assert spec["affinity"]["nodeAffinity"]
    inside = tenancy.cluster.kubectl(
        "exec",
        "-n",
        "team-a",
        pod["metadata"]["name"],
        "--",
        "sh",
        "-c",
        "id -u; ls /var/run/secrets 2>&1; touch /x 2>&1; true",
    )
    assert inside.splitlines()[0] == "65532"
    assert "Read-only" in inside
