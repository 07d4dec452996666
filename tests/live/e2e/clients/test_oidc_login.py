"""Logins by OpenID Connect: a played issuer, a real API server that trusts it as docs/administrators.md says, and the
dashboard behind a proxy that passes on ID tokens as oauth2-proxy does."""

from __future__ import annotations

import asyncio
import http.client
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import pytest
import yaml

from cotenant.dashboard.access.entrances import TrustedProxy
from cotenant.dashboard.process import ServerInCluster, serve_cluster
from cotenant_local.cluster.certificates import CertificateAuthority
from cotenant_local.host.api_client import Api, ApiError
from cotenant_local.host.patience import stretched
from tests.live.e2e.clients.lone_api_server import LoneApiServer, lone_api_server
from tests.live.e2e.clients.played_issuer import PlayedIssuer, played_issuer
from tests.live.e2e.tenancy import training_job

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

CHECKOUT: Final = Path(__file__).parents[4]
PAGE: Final = CHECKOUT / "docs" / "administrators.md"
AUDIENCE: Final = "cotenant"
PROXY: Final = "127.0.0.2"
"""The address that the proxy's requests come from; strangers come from 127.0.0.1."""
ANN: Final[dict[str, Any]] = {"aud": AUDIENCE, "sub": "1", "email": "ann@example.org", "groups": ["vision"]}
RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str


@dataclass(frozen=True)
class Login:
    issuer: PlayedIssuer
    server: LoneApiServer
    port: int

    def ask(self, path: str, *, peer: str = PROXY, headers: Mapping[str, str] | None = None, **form: str) -> Answer:
        """What a browser at the address `peer` gets; with a form: posted."""
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=30, source_address=(peer, 0), context=ssl._create_unverified_context()
        )
        kind = {"Content-Type": "application/x-www-form-urlencoded"} if form else {}
        try:
            connection.request(
                "POST" if form else "GET", path, urlencode(form) if form else None, kind | dict(headers or {})
            )
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.headers), answer.read().decode())
        finally:
            connection.close()

    def as_proxy(self, token: str, path: str, **headers: str) -> Answer:
        return self.ask(path, headers={"Authorization": f"Bearer {token}"} | headers)


@pytest.fixture(scope="module")
def login(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Login]:
    folder = tmp_path_factory.mktemp("oidc")
    with (
        played_issuer(folder) as issuer,
        lone_api_server(folder / "server", documented_configuration(issuer)) as server,
        dashboard(folder, server) as port,
    ):
        tenants(server.admin)
        known(issuer, server)
        yield Login(issuer, server, port)


def documented_configuration(issuer: PlayedIssuer) -> dict[str, Any]:
    """AuthenticationConfiguration of the page, with the issuer of the test in it."""
    texts = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (found,) = [one for one in map(yaml.safe_load, texts) if one.get("kind") == "AuthenticationConfiguration"]
    trusted = found["jwt"][0]["issuer"]
    assert trusted["audiences"] == [AUDIENCE]
    trusted |= {"url": issuer.url, "certificateAuthority": issuer.authority.read_text()}
    return dict(found)


def tenants(admin: Api) -> None:
    """Two namespaces with a job each; the group `vision` may see those of one."""
    crd = yaml.safe_load((CHECKOUT / "crds" / "trainingjobs.yaml").read_text())
    admin.apply("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "looks"}}
    rule = {"apiGroups": ["cotenant.dev"], "resources": ["trainingjobs"], "verbs": ["get", "list", "watch"]}
    group = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "oidc:vision"}
    binding = {
        **role, "kind": "RoleBinding", "subjects": [group],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "looks"},
    }  # fmt: skip
    for name in ("team-a", "team-b"):
        admin.apply("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        job = training_job(f"held-{name}", name, suspend=True)
        path = f"/apis/cotenant.dev/v1beta1/namespaces/{name}/trainingjobs"
        wait(lambda path=path, job=job: _applied(admin, path, job), f"a job in {name}")  # type: ignore[misc]
    admin.apply(f"{RBAC}/namespaces/team-a/roles", role | {"rules": [rule]})
    admin.apply(f"{RBAC}/namespaces/team-a/rolebindings", binding)


def _applied(admin: Api, path: str, document: dict[str, Any]) -> bool:
    try:
        admin.apply(path, document)
    except ApiError as error:
        if error.status != 404:  # its kind is not served yet
            raise
        return False
    return True


def known(issuer: PlayedIssuer, server: LoneApiServer) -> None:
    """The API server asks the issuer for its keys in the background."""
    token = issuer.id_token(**ANN)
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    wait(lambda: server.admin.call("POST", path, review)["status"].get("authenticated"), "the issuer is trusted")


def wait(until: Callable[[], Any], what: str) -> Any:
    ends = time.monotonic() + stretched(60)
    while not (found := until()):
        assert time.monotonic() < ends, f"not within a minute: {what}"
        time.sleep(0.2)
    return found


@contextmanager
def dashboard(folder: Path, server: LoneApiServer) -> Iterator[int]:
    """The port of a dashboard that runs in a thread as the chart runs it."""
    files = CertificateAuthority(folder, "dashboard-ca").issue("tls", common_name="localhost", hosts=("127.0.0.1",))
    assert [file.name for file in files] == ["tls.crt", "tls.key"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    settings = ServerInCluster(
        api_server=server.url, authority=server.authority, host="127.0.0.1", port=port, certificate=folder,
        proxy=TrustedProxy(networks=(ip_network(f"{PROXY}/32"),)),
    )  # fmt: skip
    loop = asyncio.new_event_loop()
    task = loop.create_task(serve_cluster(settings))

    def serve() -> None:
        loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
        loop.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        wait(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0, "the dashboard listens")
        yield port
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(timeout=30)


def page(login: Login, token: str, path: str, wanted: str) -> str:
    """The page, as soon as it shows the text."""

    def whole() -> str:
        answer = login.as_proxy(token, path)
        assert answer.status == 200, answer.text
        return answer.text if wanted in answer.text else ""

    return str(wait(whole, f"{path} shows {wanted}"))


def test_an_id_token_that_the_proxy_passes_on_shows_what_rbac_lets_its_user_see(login: Login) -> None:
    token = login.issuer.id_token(**ANN)
    own = page(login, token, "/line?show=waiting&namespace=team-a", "held-team-a")
    assert "oidc:ann@example.org" in own
    assert "held-team-b" not in own
    everywhere = page(login, token, "/line?namespace=*", "User &#34;oidc:ann@example.org&#34; cannot list")
    assert "held-team" not in everywhere
    other = page(login, token, "/jobs/team-b/held-team-b", "cannot list resource")
    assert "cotenant.dev" in other
    assert login.issuer.asked[:2] == ["/.well-known/openid-configuration", "/keys"]


def test_somebody_else_whom_the_issuer_knows_sees_nothing_of_it(login: Login) -> None:
    bob = login.issuer.id_token(**(ANN | {"email": "bob@example.org", "groups": ["speech"]}))
    assert "held-team" not in page(login, bob, "/line?namespace=team-a", "oidc:bob@example.org&#34; cannot list")


@pytest.mark.parametrize("way", ["proxy", "form"])
def test_tokens_that_are_not_good_are_refused_with_a_page_that_says_why(login: Login, way: str) -> None:
    issuer = login.issuer
    head, _, signature = issuer.id_token(**ANN).split(".")
    swapped = f"{head}.{issuer.id_token(**(ANN | {'email': 'root@example.org'})).split('.')[1]}.{signature}"
    refused = {
        "it ended at": issuer.id_token(lasts_s=-60, **ANN),
        "for audience shop": issuer.id_token(**(ANN | {"aud": "shop"})),
        "of issuer https://evil.example": issuer.id_token(**(ANN | {"iss": "https://evil.example"})),
        "of issuer https://127.0.0.1": issuer.forged(**ANN),
        f"for audience {AUDIENCE}": swapped,
        "or it has ended": "opaque",
    }
    for says, token in refused.items():
        answer = login.as_proxy(token, "/line") if way == "proxy" else login.ask("/login", token=token)
        assert (answer.status, answer.headers["Content-Type"]) == (403, "text/html; charset=utf-8"), says
        assert says in answer.text, answer.text
        assert "does not know this token" in answer.text
        assert "Set-Cookie" not in answer.headers


def test_a_name_in_a_header_is_nobody(login: Login) -> None:
    names = {
        "X-Forwarded-User": "system:admin", "X-Forwarded-Preferred-Username": "system:admin",
        "X-Forwarded-Email": "ann@example.org", "X-Forwarded-Groups": "system:masters",
        "X-Auth-Request-User": "system:admin", "X-Auth-Request-Email": "ann@example.org",
        "X-Auth-Request-Groups": "system:masters", "X-Remote-User": "system:admin", "X-Remote-Group": "system:masters",
        "Impersonate-User": "system:admin", "Impersonate-Group": "system:masters",
    }  # fmt: skip
    for peer in (PROXY, "127.0.0.1"):
        answer = login.ask("/line", peer=peer, headers=names)
        assert (answer.status, answer.headers["Location"]) == (303, "/login"), peer
    token = login.issuer.id_token(**ANN)
    stranger = login.ask("/line", peer="127.0.0.1", headers={"Authorization": f"Bearer {token}"} | names)
    assert (stranger.status, stranger.headers["Location"]) == (303, "/login")
    both = login.as_proxy(token, "/line?namespace=team-b", **names)
    assert both.status == 200
    assert "system:admin" not in both.text
    assert "oidc:ann@example.org" in both.text
    assert "held-team-b" not in both.text


def test_an_id_token_that_somebody_pastes_is_a_login_too_until_it_ends(login: Login) -> None:
    token = login.issuer.id_token(lasts_s=8, **ANN)
    entered = login.ask("/login", peer="127.0.0.1", token=token, namespace="team-a")
    assert entered.status == 303, entered.text
    cookie = entered.headers["Set-Cookie"].partition(";")[0]

    def shown() -> Answer:
        return login.ask("/line", peer="127.0.0.1", headers={"Cookie": cookie})

    assert "oidc:ann@example.org" in shown().text
    wait(lambda: shown().status == 303, "the session ends with its token")
