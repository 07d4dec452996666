"""Tokens of accounts last ten minutes: the feed goes on with the next one when the last is taken no more."""

from __future__ import annotations

import asyncio
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kopf
import kubernetes
import pytest
from kubernetes.config import incluster_config

from cotenant.controller.client.kube import NAMESPACES, Document, Resource
from cotenant.controller.informers.feed import kopf_feed
from cotenant_local.host.patience import Patience

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(200)]

NAMESPACE = "expires"


class Account:
    """The folder of an operator's account. A token is bound to a Secret, and ends with it, as in a pod with the pod."""

    def __init__(self, cluster: Cluster, folder: Path, server: str) -> None:
        self.cluster, self.folder, self.server = cluster, folder, server
        cluster.kubectl("create", "namespace", NAMESPACE)
        cluster.kubectl("create", "serviceaccount", "feed", "-n", NAMESPACE)
        cluster.kubectl(
            "create",
            "clusterrolebinding",
            NAMESPACE,
            "--clusterrole=cluster-admin",
            f"--serviceaccount={NAMESPACE}:feed",
        )

    def mount(self, name: str) -> str:
        """Put a new token where the last one was, as the kubelet does."""
        self.cluster.kubectl("create", "secret", "generic", name, "-n", NAMESPACE)
        bound = ("--bound-object-kind", "Secret", "--bound-object-name", name)
        token = self.cluster.kubectl("create", "token", "feed", "-n", NAMESPACE, *bound).strip()
        (self.folder / "token").write_text(token)
        return token

    def end(self, name: str) -> None:
        self.cluster.kubectl("delete", "secret", name, "-n", NAMESPACE)

    def accepts(self, token: str) -> bool:
        """True if the API server still accepts the token. It caches the answer for some seconds."""
        trust = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        request = urllib.request.Request(
            f"{self.server}/api/v1/namespaces", headers={"Authorization": f"Bearer {token}"}
        )
        try:
            with urllib.request.urlopen(request, context=trust, timeout=10):
                return True
        except urllib.error.HTTPError as error:
            return error.code != 401


@pytest.fixture
def account(api_server: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    configuration = kubernetes.client.Configuration()
    kubernetes.config.load_kube_config(str(api_server.kubeconfig), client_configuration=configuration)
    (tmp_path / "ca.crt").write_bytes(Path(configuration.ssl_ca_cert).read_bytes())
    host, _, port = configuration.host.removeprefix("https://").partition(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    yield Account(api_server, tmp_path, configuration.host)
    api_server.kubectl("delete", "namespace", NAMESPACE)
    api_server.kubectl("delete", "clusterrolebinding", NAMESPACE)


async def until(true: Callable[[], bool], what: str) -> None:
    patience = Patience(60)
    while not await asyncio.to_thread(true):
        assert not patience.exhausted(), what
        await asyncio.sleep(0.3)


async def test_the_feed_outlives_the_token_that_it_began_with(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = kopf_feed.build_settings()
    settings.watching.server_timeout, settings.watching.client_timeout = 4, 8  # each watch shows a token anew
    monkeypatch.setattr(kopf_feed, "build_settings", lambda: settings)
    seen: set[tuple[str, str]] = set()
    logins: list[object] = []
    login = kopf.login_via_client

    def counted(**arguments: Any) -> object:
        logins.append(login(**arguments))
        return logins[-1]

    monkeypatch.setattr(kopf, "login_via_client", counted)

    class Seeing:
        def on_event(self, resource: Resource, document: Document, deleted: bool) -> None:
            seen.add((resource.plural, document["metadata"]["name"]))

        def on_listed(self, resource: Resource) -> None:
            """Does nothing: deleted objects do not matter to this test."""

    first = account.mount("first")
    feed = asyncio.create_task(kopf_feed.run(Seeing(), (NAMESPACES,)))
    try:
        await until(lambda: ("namespaces", NAMESPACE) in seen, "the feed does not begin")
        account.mount("second")
        account.end("first")
        await until(lambda: not account.accepts(first), "the first token is taken for ever")
        await until(lambda: len(logins) > 1, "the feed does not ask for another token")
        seen.clear()
        account.cluster.kubectl("label", "namespace", NAMESPACE, "seen=now", "--overwrite")
        await until(lambda: ("namespaces", NAMESPACE) in seen, "nothing is seen after the first token")
        assert not feed.done()
    finally:
        feed.cancel()
