"""Which claims get a volume, which are refused with a reason, and which volumes are removed."""

from typing import Any

import pytest

from cotenant_local.controlplane import volume_provisioner

MINE = {volume_provisioner.REQUESTED_PROVISIONER: volume_provisioner.PROVISIONER}


def claim(name: str, *, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": annotations or MINE}
    amounts = {"requests": {"storage": "1Gi"}}
    whole = {"accessModes": ["ReadWriteOnce"], "resources": amounts, "storageClassName": "standard", **spec}
    return {"metadata": meta, "spec": whole}


def volume(
    name: str, phase: str, policy: str = "Delete", maker: str = volume_provisioner.PROVISIONER
) -> dict[str, Any]:
    meta = {"name": name, "annotations": {volume_provisioner.PROVISIONED_BY: maker}}
    return {"metadata": meta, "spec": {"persistentVolumeReclaimPolicy": policy}, "status": {"phase": phase}}


def test_claims_of_this_class_without_a_volume_are_due_and_others_are_not() -> None:
    claims = [
        claim("new"),
        claim("bound", volumeName="pvc-uid-bound"),
        claim("elsewhere", annotations={volume_provisioner.REQUESTED_PROVISIONER: "example.com/disk"}),
        claim("block", volumeMode="Block"),
    ]
    now = volume_provisioner.actions(claims, [])
    assert [one["metadata"]["name"] for one in now.provision] == ["new"]
    assert [one["metadata"]["name"] for one, _ in now.reject] == ["block"]


def test_a_volume_is_removed_when_its_claim_is_gone_and_it_was_made_here() -> None:
    known = [
        volume("bound", "Bound"),
        volume("gone", "Released"),
        volume("kept", "Released", policy="Retain"),
        volume("foreign", "Released", maker="example.com/disk"),
    ]
    assert [one["metadata"]["name"] for one in volume_provisioner.actions([], known).delete] == ["gone"]


def test_the_volume_is_for_exactly_this_claim() -> None:
    made = volume_provisioner.volume(claim("data", accessModes=["ReadWriteMany"]))
    assert made["metadata"]["name"] == "pvc-uid-data"
    assert made["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "capacity": {"storage": "1Gi"},
        "claimRef": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": "default",
            "name": "data",
            "uid": "uid-data",
        },
        "hostPath": {"path": "/var/lib/cotenant-volumes/pvc-uid-data", "type": "Directory"},
        "persistentVolumeReclaimPolicy": "Delete",
        "storageClassName": "standard",
    }


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"volumeMode": "Filesystem"}, ""),
        ({"volumeMode": "Block"}, "volumeMode Block is not provided"),
        ({"dataSource": {"kind": "VolumeSnapshot", "name": "a"}}, "snapshots and clones are not provided"),
        ({"selector": {"matchLabels": {"a": "b"}}}, "have no labels to select"),
    ],
)
def test_what_a_folder_cannot_be_is_refused_with_the_reason(spec: dict[str, Any], said: str) -> None:
    refusal = volume_provisioner.rejection(claim("x", **spec)["spec"])
    assert said in refusal
    assert bool(said) == bool(refusal)
