"""The agent's client of the API server: its Node, its GPUNode, the managed pods on its node.

The typed client re-reads the service-account token by itself. Every call has a deadline, so that a silent API server
costs a heartbeat and not the agent.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any, Final, Protocol

import kubernetes
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from cotenant.names import GROUP, LABEL_MANAGED_BY, MANAGED_BY, VERSION
from cotenant_agent.enforcement.quota import PodQuota, grant_of
from cotenant_agent.gpus.readings import GpuSourceError

log = logging.getLogger("cotenant.agent.cluster")

TIMEOUT_S: Final = (5, 10)
WATCH_S: Final = 240
GPU_NODES: Final = "gpunodes"
MERGE_PATCH: Final = "application/merge-patch+json"
UNREACHABLE: Final = (ApiException, HTTPError, OSError)


class GPUNodeClient(Protocol):
    """What the agent asks of the API server; tests have another."""

    def node(self) -> dict[str, Any]: ...

    def runtime_class_exists(self, name: str) -> bool: ...

    def ensure_gpu_node(self, node: Mapping[str, Any]) -> dict[str, Any]: ...

    def patch_status(self, patch: Mapping[str, Any]) -> dict[str, Any]: ...

    def remove_annotation(self, key: str) -> None: ...

    def grants(self) -> Mapping[str, PodQuota]: ...


class KubernetesGPUNodeClient:
    """Over the typed client. `watch_pods` runs in a thread of its own and keeps `grants` fresh."""

    def __init__(self, node: str) -> None:
        try:
            kubernetes.config.load_incluster_config()
        except kubernetes.config.ConfigException:
            try:
                kubernetes.config.load_kube_config()
            except kubernetes.config.ConfigException as error:
                raise GpuSourceError(f"no cluster: neither a service account nor a kubeconfig ({error})") from error
        self._name = node
        self._core = kubernetes.client.CoreV1Api()
        self._custom = kubernetes.client.CustomObjectsApi()
        self._classes = kubernetes.client.NodeV1Api()
        self._grants: Mapping[str, PodQuota] = {}

    def node(self) -> dict[str, Any]:
        return dict(self._plain(self._core.read_node(self._name, _request_timeout=TIMEOUT_S)))

    def runtime_class_exists(self, name: str) -> bool:
        try:
            self._classes.read_runtime_class(name, _request_timeout=TIMEOUT_S)
        except ApiException as error:
            if error.status == 404:
                return False
            raise
        return True

    def ensure_gpu_node(self, node: Mapping[str, Any]) -> dict[str, Any]:
        """Create it, or find it and make the present Node its owner."""
        owner = {"apiVersion": "v1", "kind": "Node", "name": self._name, "uid": node["metadata"]["uid"]}
        wanted = {"labels": {LABEL_MANAGED_BY: MANAGED_BY}, "ownerReferences": [owner]}
        body = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "GPUNode",
            "metadata": {"name": self._name, **wanted},
        }
        try:
            created = self._custom.create_cluster_custom_object(
                GROUP, VERSION, GPU_NODES, body, _request_timeout=TIMEOUT_S
            )
            return dict(created)
        except ApiException as error:
            if error.status != 409:
                raise
        there = self._custom.get_cluster_custom_object(
            GROUP, VERSION, GPU_NODES, self._name, _request_timeout=TIMEOUT_S
        )
        if there["metadata"].get("ownerReferences") == [owner]:
            return dict(there)
        return self._patch({"metadata": wanted})

    def patch_status(self, patch: Mapping[str, Any]) -> dict[str, Any]:
        answer = self._custom.patch_cluster_custom_object_status(
            GROUP, VERSION, GPU_NODES, self._name, dict(patch), _request_timeout=TIMEOUT_S, _content_type=MERGE_PATCH
        )
        return dict(answer)

    def remove_annotation(self, key: str) -> None:
        self._patch({"metadata": {"annotations": {key: None}}})

    def _patch(self, patch: Mapping[str, Any]) -> dict[str, Any]:
        answer = self._custom.patch_cluster_custom_object(
            GROUP, VERSION, GPU_NODES, self._name, dict(patch), _request_timeout=TIMEOUT_S, _content_type=MERGE_PATCH
        )
        return dict(answer)

    def grants(self) -> Mapping[str, PodQuota]:
        """Of the managed pods on this node that hold or may still hold GPUs."""
        return self._grants

    def watch_pods(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                self._follow_pods(stop)
            except UNREACHABLE as error:
                log.warning("pods of this node cannot be watched: %s; trying again", error_summary(error))
                stop.wait(5)

    def _follow_pods(self, stop: threading.Event) -> None:
        where = {
            "field_selector": f"spec.nodeName={self._name}",
            "label_selector": f"{LABEL_MANAGED_BY}={MANAGED_BY}",
        }
        listed = self._core.list_pod_for_all_namespaces(**where, _request_timeout=TIMEOUT_S)
        pods = {pod.metadata.uid: grant_of(self._plain(pod)) for pod in listed.items if may_hold_gpus(pod.status.phase)}
        self._grants = {uid: grant for uid, grant in pods.items() if grant is not None}
        events = kubernetes.watch.Watch().stream(
            self._core.list_pod_for_all_namespaces,
            **where,
            resource_version=listed.metadata.resource_version,
            timeout_seconds=WATCH_S,
            _request_timeout=(5, WATCH_S + 15),
        )
        for event in events:
            if stop.is_set():
                return
            pod = event["raw_object"]
            grants = dict(self._grants)
            grants.pop(pod["metadata"]["uid"], None)
            grant = grant_of(pod) if event["type"] != "DELETED" and may_hold_gpus(pod["status"].get("phase")) else None
            if grant is not None:
                grants[grant.pod_uid] = grant
            self._grants = grants

    def _plain(self, value: Any) -> Any:
        return self._core.api_client.sanitize_for_serialization(value)


def may_hold_gpus(phase: str | None) -> bool:
    return phase not in {"Succeeded", "Failed"}


def error_summary(error: BaseException) -> str:
    if isinstance(error, ApiException):
        return f"HTTP {error.status} {error.reason}"
    return f"{type(error).__name__}: {error}"
