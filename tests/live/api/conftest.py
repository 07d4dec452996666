"""The real API server with our CRDs in it, for the tests that are marked `cluster`."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
import yaml

from cotenant import names
from cotenant.api.schema import crds, kinds
from tests.live.waiting import wait_until

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

GROUP = f"/apis/{names.API_VERSION}"
PATHS = {one.kind: f"namespaces/default/{one.plural}" if one.namespaced else one.plural for one in kinds.RESOURCES}
READY_S = 30


@dataclass
class Answer:
    status: int
    body: dict[str, Any]
    warning: str = ""

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))


class Server:
    """One kept connection to the API server that a kubeconfig names."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        files = {}
        for name, text in (("crt", user["client-certificate-data"]), ("key", user["client-key-data"])):
            files[name] = folder / f"client.{name}"
            files[name].write_bytes(base64.b64decode(text))
        context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        context.load_cert_chain(files["crt"], files["key"])
        address = urlsplit(cluster["server"])
        self._connection = http.client.HTTPSConnection(
            address.hostname or "", address.port, context=context, timeout=30
        )

    def call(
        self, method: str, path: str, body: Any = None, *, accept: str = "application/json", kind: str = ""
    ) -> Answer:
        """`body` is a document, or YAML text that goes out as it is; `kind` is its content type."""
        text = body if isinstance(body, str) else json.dumps(body)
        kind = kind or ("application/yaml" if isinstance(body, str) else "application/json")
        headers = {"Content-Type": kind, "Accept": accept}
        self._connection.request(method, path, text.encode() if body is not None else None, headers)
        response = self._connection.getresponse()
        raw, warning = response.read(), response.getheader("Warning") or ""
        try:
            return Answer(response.status, json.loads(raw), warning)
        except json.JSONDecodeError:
            return Answer(response.status, {"message": raw.decode(errors="replace")})

    def dry_run(self, body: Any, kind: str, version: str = names.API_VERSION) -> Answer:
        """Do what `kubectl create --dry-run=server --validate=strict` does, in this version."""
        return self.call("POST", f"/apis/{version}/{PATHS[kind]}?dryRun=All&fieldValidation=Strict", body)

    def create(self, body: Any, kind: str, version: str) -> Answer:
        return self.call("POST", f"/apis/{version}/{PATHS[kind]}?fieldValidation=Strict", body)

    def collection(self, kind: str) -> str:
        """Path below a version."""
        return PATHS[kind]


@pytest.fixture(scope="session")
def server(api_server: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Server:
    made = Server(Path(api_server.kubeconfig), tmp_path_factory.mktemp("server"))
    for resource in kinds.RESOURCES:
        document = crds.document(resource)
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{document['metadata']['name']}"
        answer = made.call(
            "PATCH", f"{path}?fieldManager=tests&force=true", document, kind="application/apply-patch+yaml"
        )
        assert answer.status in {200, 201}, answer.message

    def served() -> bool:
        return all(made.call("GET", f"{GROUP}/{resource.plural}").status == 200 for resource in kinds.RESOURCES)

    wait_until(served, "what discovery names is answered a moment later", seconds=READY_S)
    return made
