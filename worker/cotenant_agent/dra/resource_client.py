"""The driver's requests to the API server: the ResourceSlices of its node, and single ResourceClaims. Every call has a
deadline.

Objects are plain dictionaries, because the oldest client library that the agent supports has no typed client of
`resource.k8s.io/v1`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any, Final

import kubernetes
from kubernetes.client.exceptions import ApiException

from cotenant.names import DRA_DRIVER
from cotenant_agent.failures import Failures, Step
from cotenant_agent.reports.gpunode_client import TIMEOUT_S, UNREACHABLE, error_summary

log = logging.getLogger("cotenant.agent.dra")

GROUP: Final = "resource.k8s.io"
VERSION: Final = "v1"
SLICES: Final = "resourceslices"
WATCH_S: Final = 240


class ResourceClient:
    """`watch` keeps `seen` fresh in a thread of its own, because the kubelet removes the slices of a driver that it has
    lost.
    """

    def __init__(self, node: str, failures: Failures) -> None:
        self._custom = kubernetes.client.CustomObjectsApi()
        self._where = f"spec.nodeName={node},spec.driver={DRA_DRIVER}"
        self._failures = failures
        self._lock = threading.Lock()
        self._seen: dict[str, dict[str, Any]] | None = None
        self.served: bool | None = None
        """True if the API server has the resource; None before it was asked."""

    def seen(self) -> dict[str, dict[str, Any]] | None:
        """The slices of this node by name; None before they were listed."""
        with self._lock:
            return None if self._seen is None else dict(self._seen)

    def write(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Create the slice, or replace the one that was seen. Raises ApiException with 409 if that has changed."""
        name = document["metadata"]["name"]
        known = (self.seen() or {}).get(name)
        if known is None:
            answer = self._custom.create_cluster_custom_object(
                GROUP, VERSION, SLICES, dict(document), _request_timeout=TIMEOUT_S
            )
        else:
            metadata = dict(document["metadata"]) | {"resourceVersion": known["metadata"]["resourceVersion"]}
            answer = self._custom.replace_cluster_custom_object(
                GROUP, VERSION, SLICES, name, dict(document) | {"metadata": metadata}, _request_timeout=TIMEOUT_S
            )
        return self._note(dict(answer))

    def delete(self, name: str) -> None:
        try:
            self._custom.delete_cluster_custom_object(GROUP, VERSION, SLICES, name, _request_timeout=TIMEOUT_S)
        except ApiException as error:
            if error.status != 404:
                raise
        with self._lock:
            (self._seen or {}).pop(name, None)

    def claim(self, namespace: str, name: str) -> dict[str, Any] | None:
        """The claim; None if there is none of that name."""
        try:
            return dict(
                self._custom.get_namespaced_custom_object(
                    GROUP, VERSION, namespace, "resourceclaims", name, _request_timeout=TIMEOUT_S
                )
            )
        except ApiException as error:
            if error.status == 404:
                return None
            raise

    def watch(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                self._follow(stop)
            except UNREACHABLE as error:
                if isinstance(error, ApiException) and error.status == 404:
                    self.served = False
                else:
                    log.warning("ResourceSlices cannot be watched: %s; trying again", error_summary(error))
                stop.wait(60 if self.served is False else 5)
            except Exception as error:  # the thread lives as long as the agent
                self._failures.note(Step.WATCH, "the watch of this node's ResourceSlices", error)
                stop.wait(5)

    def _follow(self, stop: threading.Event) -> None:
        listed = self._custom.list_cluster_custom_object(
            GROUP, VERSION, SLICES, field_selector=self._where, _request_timeout=TIMEOUT_S
        )
        with self._lock:
            self._seen = {one["metadata"]["name"]: one for one in listed["items"]}
        self.served = True
        events = kubernetes.watch.Watch().stream(
            self._custom.list_cluster_custom_object,
            GROUP,
            VERSION,
            SLICES,
            field_selector=self._where,
            resource_version=listed["metadata"]["resourceVersion"],
            timeout_seconds=WATCH_S,
            _request_timeout=(5, WATCH_S + 15),
        )
        for event in events:
            if stop.is_set():
                return
            if event["type"] == "DELETED":
                with self._lock:
                    (self._seen or {}).pop(event["object"]["metadata"]["name"], None)
            elif event["type"] in {"ADDED", "MODIFIED"}:
                self._note(event["object"])

    def _note(self, document: dict[str, Any]) -> dict[str, Any]:
        """Keep the slice, unless a newer version is known: an answer may overtake the watch."""
        name = document["metadata"]["name"]
        with self._lock:
            if self._seen is None:
                self._seen = {}
            known = self._seen.get(name)
            if known is None or _version(known) <= _version(document):
                self._seen[name] = document
        return document


def _version(document: Mapping[str, Any]) -> int:
    """Resource version as a number, which Kubernetes 1.35 allows to compare. A version that is no number counts as the
    newest.
    """
    text = str(document["metadata"].get("resourceVersion", ""))
    return int(text) if text.isdigit() else 2**63
