"""Reads the cluster for the demo: GPUNodes and TrainingJobs, with the kubeconfig that a person would use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cotenant_local.demo.scenes import Scene, scene_of


class ClusterReader:
    """A reader of one cluster. Raises what the Kubernetes client raises when the API server is gone."""

    def __init__(self, kubeconfig: Path) -> None:
        from kubernetes import client, config

        self._objects = client.CustomObjectsApi(config.new_client_from_config(str(kubeconfig)))
        self._events = client.CoreV1Api(self._objects.api_client)

    def scene(self) -> Scene:
        return scene_of(self._list("gpunodes"), self._list("trainingjobs"))

    def describe(self, job: str) -> str:
        """What `kubectl describe` would show of a job that waits: its verdict and its events."""
        namespace, name = job.split("/")
        document = self._objects.get_namespaced_custom_object(
            "cotenant.dev", "v1alpha1", namespace, "trainingjobs", name
        )
        pending = document.get("status", {}).get("pending") or {}
        lines = [f"$ kubectl -n {namespace} describe tj {name}   # the part that says why it waits"]
        lines += [f"  {key}: {value}" for key, value in pending.items()]
        events = json.loads(
            self._events.list_namespaced_event(
                namespace, field_selector=f"involvedObject.name={name}", _preload_content=False
            ).data
        )
        lines += [f"  event {item.get('reason')}: {item.get('message')}" for item in events["items"]]
        return "\n".join(lines)

    def _list(self, plural: str) -> list[dict[str, Any]]:
        raw = self._objects.list_cluster_custom_object("cotenant.dev", "v1alpha1", plural, _preload_content=False)
        items: list[dict[str, Any]] = json.loads(raw.data)["items"]
        return items
