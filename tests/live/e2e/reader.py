"""Objects of a live cluster, read without a process for each look.

A test that waits looks three times a second, and a kubectl takes a tenth of a second of CPU each time: together they
kept a small machine from what the tests wait for.
"""

from __future__ import annotations

import argparse
import json
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import kubernetes
from urllib3.exceptions import HTTPError

from cotenant_local.host.errors import LocalError

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

Document = dict[str, Any]
APIS = {
    "pods": "/api/v1",
    "nodes": "/api/v1",
    "events": "/api/v1",
    "trainingjobs": "/apis/cotenant.dev/v1beta1",
    "gpunodes": "/apis/cotenant.dev/v1beta1",
    "queues": "/apis/cotenant.dev/v1beta1",
    "sessions": "/apis/cotenant.dev/v1beta1",
    "sweeps": "/apis/cotenant.dev/v1beta1",
    "quotarequests": "/apis/cotenant.dev/v1beta1",
    "resourceclaims": "/apis/resource.k8s.io/v1",
    "resourceslices": "/apis/resource.k8s.io/v1",
    "leases": "/apis/coordination.k8s.io/v1",
}
"""What is looked at often → where it is served. Everything else is kubectl's."""
OF_THE_CLUSTER = {"nodes", "gpunodes", "queues", "resourceslices"}

_WORDS = argparse.ArgumentParser()
_WORDS.add_argument("kind")
_WORDS.add_argument("name", nargs="?", default="")
_WORDS.add_argument("-n", dest="namespace", default="default")
_WORDS.add_argument("-A", dest="everywhere", action="store_true")
_WORDS.add_argument("-l", dest="labels", default="")
_WORDS.add_argument("--field-selector", dest="fields", default="")


class Reader:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @cached_property
    def _client(self) -> kubernetes.client.ApiClient:
        return kubernetes.config.new_client_from_config(str(self._cluster.kubeconfig))

    def get(self, *words: str) -> Document:
        """The answer of `kubectl get WORDS -o json`. Raises LocalError with the server's answer."""
        asked = _WORDS.parse_args(words)
        resource = asked.kind if asked.kind.endswith("s") else f"{asked.kind}s"
        if resource not in APIS:
            found: Document = json.loads(self._cluster.kubectl("get", *words, "-o", "json"))
            return found
        where = "" if asked.everywhere or resource in OF_THE_CLUSTER else f"/namespaces/{asked.namespace}"
        path = f"{APIS[resource]}{where}/{resource}" + (f"/{asked.name}" if asked.name else "")
        chosen = {"labelSelector": asked.labels, "fieldSelector": asked.fields}
        query = urlencode({name: value for name, value in chosen.items() if value})
        url = f"{self._client.configuration.host}{path}?{query}"
        try:
            answer = self._client.call_api("GET", url, {"Accept": "application/json"}, _request_timeout=30)
            answer.read()
        except HTTPError as error:
            raise LocalError(f"GET {path}: {error}") from error
        document: Document = json.loads(answer.data)
        if answer.status != 200:
            raise LocalError(f"GET {path} was answered by {answer.status}: {document.get('message')}")
        return document
