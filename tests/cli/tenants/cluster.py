"""The API server as a verb of the command line meets it: FakeKube behind the paths of HTTP, and given answers of the
operator. Refusals are those of a real one: an exit code each."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs

from cotenant.cli.errors import EXIT_NOT_FOUND, EXIT_REFUSED, UserError
from cotenant.controller.client.kube import CONFIG_MAPS, LOCAL_QUEUES, PODS, SWEEPS, TRAINING_JOBS, Reply
from cotenant.sdk.job_paths import QUESTIONS
from tests.support.fake_kube import FakeKube

KINDS = {one.path("NS").replace("NS", "{}"): one for one in (CONFIG_MAPS, LOCAL_QUEUES, PODS, SWEEPS, TRAINING_JOBS)}


class PlayedCluster:
    """Stands in for a Connection. `answers`: path below the API of questions → document, or what makes one of the
    question's body; `on_sleep`: what the cluster does while a verb waits."""

    def __init__(self, namespace: str = "red") -> None:
        self.namespace, self.kube = namespace, FakeKube()
        self.answers: dict[str, dict[str, Any] | Callable[[Any], dict[str, Any]]] = {}
        self.asked: list[tuple[str, Any]] = []
        self.on_sleep: Callable[[], object] = lambda: None

    def get(self, path: str) -> dict[str, Any]:
        return self.call("GET", QUESTIONS + path)

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self.call("POST", QUESTIONS + path, body)

    def read(self, path: str) -> dict[str, Any]:
        return self.call("GET", path)

    def patch(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self.call("PATCH", path, body)

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        if path.startswith(QUESTIONS):
            self.asked.append((path.removeprefix(QUESTIONS), body))
            found = self.answers.get(path.removeprefix(QUESTIONS).partition("?")[0])
            if found is None:
                raise UserError(f"{path} not found", EXIT_NOT_FOUND)
            return copy.deepcopy(found(body) if callable(found) else found)
        return asyncio.run(self._objects(method, path, body))

    async def _objects(self, method: str, path: str, body: Any) -> dict[str, Any]:
        parts = path.partition("?")[0].split("/")
        at = parts.index("namespaces") + 1
        namespace, resource = parts[at], KINDS["/".join([*parts[:at], "{}", parts[at + 1]])]
        name = parts[at + 2] if len(parts) > at + 2 else ""
        if method == "GET" and not name:
            labels = parse_qs(path.partition("?")[2]).get("labelSelector", [""])[0]
            found = await self.kube.list(resource, namespace, labels)
            return {"items": list(found.items)}
        if method == "GET":
            return _document(await self.kube.get(resource, name, namespace))
        if method == "POST":
            return _document(await self.kube.create(resource, body, namespace))
        if method == "PATCH":
            return _document(await self.kube.patch(resource, name, body, namespace=namespace))
        return _document(await self.kube.delete(resource, name, namespace))

    def job(self, name: str = "train", status: Mapping[str, Any] | None = None, **spec: Any) -> None:
        """A job that is there."""
        document = {
            "apiVersion": "cotenant.dev/v1beta1",
            "kind": "TrainingJob",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"queue": "red", "gpu": {"count": 1}, "runtime": {"command": ["python", "train.py"]}, **spec},
            "status": dict(status or {}),
        }
        self.kube.put(TRAINING_JOBS, document)

    def becomes(self, name: str = "train", **status: Any) -> None:
        """The operator writes its status."""
        known = self.stored(name)
        self.kube.put(TRAINING_JOBS, known | {"status": known.get("status", {}) | status})

    def stored(self, name: str = "train") -> dict[str, Any]:
        found = self.kube.stored(TRAINING_JOBS, name, self.namespace)
        assert found is not None, f"there is no {name}"
        return found

    @property
    def writes(self) -> list[str]:
        return [call for call in self.kube.calls if not call.startswith(("GET", "LIST"))]


def _document(reply: Reply) -> dict[str, Any]:
    if not reply.done:
        raise UserError(reply.message, EXIT_NOT_FOUND if reply.code == 404 else EXIT_REFUSED)
    return reply.document
