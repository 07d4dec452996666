"""Reads the cluster for the demo: GPUNodes, TrainingJobs and events, with the kubeconfig that a person would use."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from cotenant_local.demo.scenes import Scene, scene_of
from cotenant_local.host.api_client import Api

PREFIX: Final = "/apis/cotenant.dev/v1beta1"


class ClusterReader:
    """One cluster. Raises ApiError, or OSError when the API server is gone."""

    def __init__(self, kubeconfig: Path) -> None:
        self._api = Api.from_kubeconfig(kubeconfig)

    def scene(self) -> Scene:
        return scene_of(self._list("gpunodes"), self._list("trainingjobs"))

    def describe(self, job: str) -> str:
        """The part of `kubectl describe` that shows why a job waits: its verdict and its events."""
        namespace, name = job.split("/")
        document = self._api.call("GET", f"{PREFIX}/namespaces/{namespace}/trainingjobs/{name}")
        pending = document.get("status", {}).get("pending") or {}
        lines = [f"$ kubectl -n {namespace} describe tj {name}   # the part that says why it waits"]
        lines += [f"  {key}: {value}" for key, value in pending.items()]
        about = quote(f"involvedObject.name={name}")
        events = self._api.call("GET", f"/api/v1/namespaces/{namespace}/events?fieldSelector={about}")
        lines += [f"  event {item.get('reason')}: {item.get('message')}" for item in events["items"]]
        return "\n".join(lines)

    def _list(self, plural: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self._api.call("GET", f"{PREFIX}/{plural}")["items"]
        return items
