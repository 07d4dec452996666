"""Requests of one account to the API server, as a tenant would send them with curl.

Inputs: paths below a namespace, bodies as documents. Outputs: what the server said, empty where it allowed it. Nothing
is kept unless a call says so: requests are dry runs, which pass authorization and admission like any other.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import kubernetes

Document = dict[str, Any]
APIS = {
    "networkpolicies": "/apis/networking.k8s.io/v1",
    "localqueues": "/apis/cotenant.dev/v1beta1",
    "quotarequests": "/apis/cotenant.dev/v1beta1",
    "poddisruptionbudgets": "/apis/policy/v1",
    "resourceclaims": "/apis/resource.k8s.io/v1",
    "trainingjobs": "/apis/cotenant.dev/v1beta1",
}
"""Where a resource lives; others are of the core group."""


@dataclass(frozen=True)
class Account:
    """One user's requests in one namespace. `group` comes beside `system:authenticated`."""

    client: kubernetes.client.ApiClient
    user: str
    group: str
    namespace: str

    def create(self, resource: str, document: Document, *, dry: bool = True) -> str:
        return self._send("POST", resource, document, dry=dry)

    def merge(self, path: str, patch: Document, *, dry: bool = True) -> str:
        return self._send("PATCH", path, patch, content_type="application/merge-patch+json", dry=dry)

    def merge_strategically(self, path: str, patch: Document) -> str:
        """Merge as `kubectl edit` and `kubectl debug` do: lists are joined by the names of their elements."""
        return self._send("PATCH", path, patch, content_type="application/strategic-merge-patch+json")

    def edit(self, path: str, *operations: Document) -> str:
        """A JSON patch."""
        return self._send("PATCH", path, list(operations), content_type="application/json-patch+json")

    def replace(self, path: str, document: Document) -> str:
        return self._send("PUT", path, document)

    def delete(self, path: str, *, dry: bool = True, **options: Any) -> str:
        """Delete an object. If the request has a body, the API server reads options from the body only."""
        wanted = {"kind": "DeleteOptions", "apiVersion": "v1", **({"dryRun": ["All"]} if dry else {}), **options}
        return self._send("DELETE", path, wanted, dry=False)

    def read(self, path: str) -> Document:
        status, answer = self._call("GET", path, None, "application/json")
        assert status == 200, answer
        return answer

    def _send(
        self, method: str, path: str, body: object, *, content_type: str = "application/json", dry: bool = True
    ) -> str:
        where, _, query = path.partition("?")
        asked = "&".join(part for part in (query, "dryRun=All" if dry else "") if part)
        status, answer = self._call(method, f"{where}?{asked}", body, content_type)
        return "" if status < 300 else str(answer["message"])

    def _call(self, method: str, path: str, body: object, content_type: str) -> tuple[int, Document]:
        """(HTTP status, the document that came back)."""
        headers = {"Impersonate-User": self.user, "Content-Type": content_type, "Accept": "application/json"}
        if self.group:
            headers["Impersonate-Group"] = self.group
        resource = path.partition("/")[0].partition("?")[0]
        where = f"{APIS.get(resource, '/api/v1')}/namespaces/{self.namespace}/{path}"
        response = self.client.call_api(method, self.client.configuration.host + where, headers, body)
        response.read()
        return response.status, json.loads(response.data)
