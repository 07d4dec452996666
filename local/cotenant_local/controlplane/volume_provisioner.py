"""Volumes for claims: the cluster's default storage class, which makes a folder for each and hands it to every node.

`python -m cotenant_local.controlplane.volume_provisioner STATE`. All nodes are on one machine, so a folder is the same
on each of them, and nothing has to wait for the pod to be scheduled. Sizes are recorded, not enforced.
"""

import contextlib
import shutil
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cotenant_local.host.api_client import Api, ApiError
from cotenant_local.host.cluster_folder import VOLUMES, ClusterFolder
from cotenant_local.host.cluster_plan import ClusterPlan
from cotenant_local.host.informer import Informer

PROVISIONER, CLASS = "cotenant.dev/folder", "standard"
REQUESTED_PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
RESYNC_INTERVAL_S: Final = 30.0
Document = dict[str, Any]


@dataclass(frozen=True)
class VolumeActions:
    """One pass of the provisioner: claims to provision, claims to reject (with the reason), volumes to delete."""

    provision: tuple[Document, ...] = ()
    reject: tuple[tuple[Document, str], ...] = ()
    delete: tuple[Document, ...] = ()


def actions(claims: Iterable[Document], volumes: Iterable[Document]) -> VolumeActions:
    pending = [
        claim for claim in claims if _is_ours(claim, REQUESTED_PROVISIONER) and not claim["spec"].get("volumeName")
    ]
    reasons = [(claim, rejection(claim["spec"])) for claim in pending]
    return VolumeActions(
        tuple(claim for claim, reason in reasons if not reason),
        tuple((claim, reason) for claim, reason in reasons if reason),
        tuple(volume for volume in volumes if _is_ours(volume, PROVISIONED_BY) and _is_released(volume)),
    )


def rejection(spec: Document) -> str:
    """The reason why there is no volume for such a claim; empty when there is one."""
    if spec.get("volumeMode") == "Block":
        return "this cluster's volumes are folders; volumeMode Block is not provided"
    if spec.get("dataSource") or spec.get("dataSourceRef"):
        return "this cluster's volumes start empty; snapshots and clones are not provided"
    if spec.get("selector"):
        return f"volumes of class {CLASS} are made for their claim and have no labels to select"
    return ""


def volume_name(claim: Document) -> str:
    return f"pvc-{claim['metadata']['uid']}"


def volume(claim: Document) -> Document:
    """The PersistentVolume for a claim."""
    meta, spec = claim["metadata"], claim["spec"]
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": meta["namespace"]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume_name(claim), "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "accessModes": spec["accessModes"],
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "claimRef": {**reference, "name": meta["name"], "uid": meta["uid"]},
            "hostPath": {"path": str(VOLUMES / volume_name(claim)), "type": "Directory"},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": spec["storageClassName"],
        },
    }


def _is_ours(document: Document, annotation: str) -> bool:
    annotations: dict[str, str] = document["metadata"].get("annotations") or {}
    return annotations.get(annotation) == PROVISIONER


def _is_released(document: Document) -> bool:
    policy: str = document["spec"]["persistentVolumeReclaimPolicy"]
    phase: str = document.get("status", {}).get("phase", "")
    return policy == "Delete" and phase == "Released"


class Provisioner:
    def __init__(self, state: ClusterFolder, api: Api) -> None:
        self._folder, self._api = state.volumes, api
        self._woken = threading.Event()
        self._claims = Informer(api, "/api/v1/persistentvolumeclaims", self._woken.set)
        self._volumes = Informer(api, "/api/v1/persistentvolumes", self._woken.set)

    def run(self) -> None:
        for informer in (self._claims, self._volumes):
            informer.start()
        while True:
            self._woken.wait(RESYNC_INTERVAL_S)
            self._woken.clear()
            try:
                self._act(actions(self._claims.objects.values(), self._volumes.objects.values()))
            except (ApiError, OSError) as error:  # the next change, or the next resync, tries again
                print(f"volumes: {error}", file=sys.stderr, flush=True)

    def _act(self, now: VolumeActions) -> None:
        for claim in now.provision:
            folder = self._folder / volume_name(claim)
            folder.mkdir(exist_ok=True)
            folder.chmod(0o777)  # for any user that the pod runs as
            self._create("/api/v1/persistentvolumes", volume(claim))
        for claim, reason in now.reject:
            self._create(f"/api/v1/namespaces/{claim['metadata']['namespace']}/events", event(claim, reason))
        for released in now.delete:
            name = released["metadata"]["name"]
            if (self._folder / name).exists():
                shutil.rmtree(self._folder / name)
            with contextlib.suppress(ApiError):  # gone already
                self._api.call("DELETE", f"/api/v1/persistentvolumes/{name}")

    def _create(self, path: str, document: Document) -> None:
        try:
            self._api.call("POST", path, document)
        except ApiError as error:
            if error.status != 409:  # there already
                raise


def event(claim: Document, reason: str) -> Document:
    """The Event that `kubectl describe pvc` shows."""
    meta = claim["metadata"]
    reference = {"kind": "PersistentVolumeClaim", "namespace": meta["namespace"]}
    return {
        "metadata": {"name": f"{meta['name']}.{meta['uid'][:8]}", "namespace": meta["namespace"]},
        "involvedObject": {**reference, "name": meta["name"], "uid": meta["uid"]},
        "reason": "ProvisioningFailed",
        "message": reason,
        "type": "Warning",
        "source": {"component": PROVISIONER},
    }


def main() -> None:
    state = ClusterFolder(Path(sys.argv[1]))
    address = ClusterPlan.load(state.plan).addresses.control_plane
    Provisioner(state, Api.from_pki(address, 6443, state.pki, "volumes")).run()


if __name__ == "__main__":
    main()
