"""The agent's client of the API server: for its Node, its GPUNode, and the pods on its node.

The typed client re-reads the service-account token by itself. Every call has a deadline, so a silent API server costs a
heartbeat, not the agent.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import kubernetes
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from cotenant.names import GROUP, LABEL_MANAGED_BY, MANAGED_BY, VERSION
from cotenant_agent.enforcement.gpu_holders import PodsOnNode
from cotenant_agent.enforcement.quota import grant_of
from cotenant_agent.failures import Failures, Step
from cotenant_agent.gpus.readings import GpuSourceError
from cotenant_agent.reports import account_token

log = logging.getLogger("cotenant.agent.cluster")

TIMEOUT_S: Final = (5, 10)
WATCH_S: Final = 240
QUIET_S: Final = 90
"""A watch without any data for this long is dead: the API server sends a bookmark about every minute."""
ENDED_MAX: Final = 4096
"""Uids of ended pods that are remembered. Without them, the host or the kubelet is asked once more."""
GPU_NODES: Final = "gpunodes"
MERGE_PATCH: Final = "application/merge-patch+json"
UNREACHABLE: Final = (ApiException, HTTPError, OSError)


class GPUNodeClient:
    """Uses the typed client. `watch_pods` runs in a thread of its own and keeps `pods` fresh."""

    def __init__(self, node: str, failures: Failures) -> None:
        try:
            kubernetes.config.load_incluster_config()
            account_token.read_for_every_call()
        except kubernetes.config.ConfigException:
            try:
                kubernetes.config.load_kube_config()
            except kubernetes.config.ConfigException as error:
                raise GpuSourceError(f"no cluster: neither a service account nor a kubeconfig ({error})") from error
        self._name, self._failures = node, failures
        self._core = kubernetes.client.CoreV1Api()
        self._custom = kubernetes.client.CustomObjectsApi()
        self._classes = kubernetes.client.NodeV1Api()
        self._pods: PodsOnNode | None = None

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
        """Create the GPUNode, or find it and make the current Node its owner."""
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

    def gpu_nodes(self) -> int:
        """Number of GPUNodes in the cluster."""
        page = self._custom.list_cluster_custom_object(GROUP, VERSION, GPU_NODES, limit=1, _request_timeout=TIMEOUT_S)
        return len(page["items"]) + int(page["metadata"].get("remainingItemCount") or 0)

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

    def pods(self) -> PodsOnNode | None:
        """The pods of this node with a grant in their specs; None before they were listed."""
        return self._pods

    def watch_pods(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                self._follow_pods(stop)
            except UNREACHABLE as error:
                log.warning("pods of this node cannot be watched: %s; trying again", error_summary(error))
                stop.wait(5)
            except Exception as error:  # the thread lives as long as the agent
                self._failures.note(Step.WATCH, "the watch of this node's pods", error)
                stop.wait(5)

    def _follow_pods(self, stop: threading.Event) -> None:
        # Selected by node only, not by labels, because labels can be edited. The spec says what a pod holds.
        where = {"field_selector": f"spec.nodeName={self._name}"}
        listed = self._core.list_pod_for_all_namespaces(**where, _request_timeout=TIMEOUT_S)
        pods = PodsOnNode()
        for pod in listed.items:
            pods = self._take_in(pods, self._plain(pod), deleted=False)
        self._pods = pods
        events = kubernetes.watch.Watch().stream(
            self._core.list_pod_for_all_namespaces,
            **where,
            resource_version=listed.metadata.resource_version,
            timeout_seconds=WATCH_S,
            allow_watch_bookmarks=True,
            _request_timeout=(TIMEOUT_S[0], QUIET_S),
        )
        for event in events:
            if stop.is_set():
                return
            if event["type"] == "BOOKMARK":
                continue
            self._pods = self._take_in(self._pods, event["raw_object"], deleted=event["type"] == "DELETED")

    def _take_in(self, pods: PodsOnNode, pod: Mapping[str, Any], *, deleted: bool) -> PodsOnNode:
        """Take in a pod. If it cannot be read, the last known state stays."""
        try:
            return with_event(pods, pod, deleted=deleted)
        except Exception as error:
            metadata = pod["metadata"]
            self._failures.note(Step.POD, f"pod {metadata.get('namespace')}/{metadata.get('name')}", error)
            known = None if self._pods is None else self._pods.grants.get(metadata["uid"])
            return pods if known is None else replace(pods, grants={**pods.grants, metadata["uid"]: known})

    def _plain(self, value: Any) -> Any:
        return self._core.api_client.sanitize_for_serialization(value)


def with_event(pods: PodsOnNode, pod: Mapping[str, Any], *, deleted: bool) -> PodsOnNode:
    """The pods after an event of one of them. That it ended is remembered for a while after it is gone."""
    uid, over = pod["metadata"]["uid"], has_ended((pod.get("status") or {}).get("phase"))
    grants = {known: grant for known, grant in pods.grants.items() if known != uid}
    if not over and not deleted and (grant := grant_of(pod)) is not None:
        grants[uid] = grant
    ended = pods.ended
    if over:
        ended = (ended if len(ended) < ENDED_MAX else frozenset()) | {uid}
    return PodsOnNode(grants=grants, ended=ended)


def has_ended(phase: str | None) -> bool:
    """True if its kubelet has reported the end of every container."""
    return phase in {"Succeeded", "Failed"}


def error_summary(error: BaseException) -> str:
    if isinstance(error, ApiException):
        return f"HTTP {error.status} {error.reason}"
    return f"{type(error).__name__}: {error}"
