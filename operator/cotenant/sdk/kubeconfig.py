"""The cluster and the credentials from a kubeconfig, as kubectl reads it; in a pod, from its service account.

The Kubernetes client is not used: importing it takes longer than the API server's answer, and it brings compiled
packages. `$KUBECONFIG` may name several files: the first with an entry wins. Exec plugins are run, and their
credentials are kept until they expire.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from cotenant.sdk.errors import CredentialsError
from cotenant.sdk.proxies import proxy_of

POD: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
EXEC_S: Final = 120.0
_TOLD: Final = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url")
Entry = Mapping[str, Any]


@dataclass(slots=True)
class ApiServer:
    """One API server with the caller's credentials."""

    url: str
    namespace: str
    """Namespace of the context, or of the pod; `default` if it has none."""
    cluster: Entry
    user: Entry = field(repr=False)
    _token: str = field(default="", repr=False)
    _expires: datetime | None = None
    _certificate: tuple[bytes, bytes] | None = field(default=None, repr=False)

    def authorization(self) -> dict[str, str]:
        """Headers of one call: the credentials, and as whom the caller acts. Raises CredentialsError."""
        self._ask_plugin()
        return self._credentials() | _acting_as(self.user)

    def _credentials(self) -> dict[str, str]:
        if file := self.user.get("tokenFile"):
            return {"Authorization": f"Bearer {Path(file).read_text().strip()}"}
        if token := self.user.get("token") or self._token:
            return {"Authorization": f"Bearer {token}"}
        if "username" in self.user:
            pair = f"{self.user['username']}:{self.user.get('password', '')}".encode()
            return {"Authorization": "Basic " + base64.b64encode(pair).decode()}
        if provider := self.user.get("auth-provider"):
            if token := (provider.get("config") or {}).get("id-token"):
                return {"Authorization": f"Bearer {token}"}
            raise CredentialsError(
                f"the kubeconfig logs in by the auth-provider {provider.get('name')}, which has no id-token; use an"
                " exec plugin, such as `kubectl oidc-login`"
            )
        return {}

    def renew(self) -> bool:
        """Forget what a plugin gave, after the API server answered 401. False if there is no plugin to ask again."""
        self._expires = None
        return "exec" in self.user

    @property
    def has_certificate_of_plugin(self) -> bool:
        return self._certificate is not None

    @property
    def proxy(self) -> str:
        """Address of the proxy; empty if there is none. Raises CredentialsError."""
        return proxy_of(self.url, self.cluster)

    @property
    def tls_server_name(self) -> str | None:
        """Name in the server's certificate, if it differs from the address."""
        return self.cluster.get("tls-server-name") or None

    @property
    def is_https(self) -> bool:
        return self.url.startswith("https")

    def tls(self) -> ssl.SSLContext:
        """Trust and the caller's certificate, which may be a plugin's. Raises CredentialsError."""
        self._ask_plugin()
        authority = _bytes_of(self.cluster, "certificate-authority")
        context = ssl.create_default_context(cadata=authority.decode() if authority else None)
        # Since Python 3.13 it is strict. The authorities of EKS, MicroK8s and older GKE lack extensions of RFC 5280.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if self.cluster.get("insecure-skip-tls-verify"):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        certificate, key = _bytes_of(self.user, "client-certificate"), _bytes_of(self.user, "client-key")
        chain = (certificate, key) if certificate and key else self._certificate
        if chain is not None:
            with tempfile.NamedTemporaryFile(suffix=".pem") as file:  # the ssl module takes files alone
                file.write(chain[0] + b"\n" + chain[1])
                file.flush()
                context.load_cert_chain(file.name)
        return context

    def _ask_plugin(self) -> None:
        """Run the user's plugin, unless it has given credentials that are still good."""
        if "exec" in self.user and (self._expires is None or datetime.now(UTC) >= self._expires):
            self._run_plugin(self.user["exec"])

    def _run_plugin(self, plugin: Entry) -> None:
        version = plugin.get("apiVersion", "client.authentication.k8s.io/v1")
        spec: dict[str, Any] = {"interactive": False}
        asked = {"apiVersion": version, "kind": "ExecCredential", "spec": spec}
        env = os.environ | {one["name"]: one["value"] for one in plugin.get("env") or ()}
        try:
            if plugin.get("provideClusterInfo"):
                spec["cluster"] = _told_of(self.cluster)
            done = subprocess.run(
                [plugin["command"], *(plugin.get("args") or ())],
                env=env | {"KUBERNETES_EXEC_INFO": json.dumps(asked)},
                stdout=subprocess.PIPE, check=True, timeout=EXEC_S,
            )  # fmt: skip
            status = json.loads(done.stdout)["status"]
        except (OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
            raise CredentialsError(f"{plugin.get('command')} does not say who you are: {error}") from error
        self._token = status.get("token", "")
        if "clientCertificateData" in status:
            self._certificate = status["clientCertificateData"].encode(), status["clientKeyData"].encode()
        until = status.get("expirationTimestamp")
        self._expires = datetime.fromisoformat(until) if until else datetime.max.replace(tzinfo=UTC)


def _acting_as(user: Entry) -> dict[str, str]:
    """Headers of impersonation. Without them the caller would act as itself. Raises CredentialsError."""
    groups = user.get("as-groups") or []
    if len(groups) > 1 or user.get("as-user-extra"):
        raise CredentialsError(
            "the kubeconfig acts as another user by as-user-extra or by several as-groups, which is not supported; name"
            " at most one group"
        )
    group = next(iter(groups), None)
    named = {"Impersonate-User": user.get("as"), "Impersonate-Uid": user.get("as-uid"), "Impersonate-Group": group}
    return {name: str(value) for name, value in named.items() if value}


def _told_of(cluster: Entry) -> dict[str, Any]:
    """What a plugin with `provideClusterInfo` is told of the cluster. `config` is meant for plugins alone."""
    told = {name: cluster[name] for name in _TOLD if cluster.get(name)}
    if authority := _bytes_of(cluster, "certificate-authority"):
        told["certificate-authority-data"] = base64.b64encode(authority).decode()
    for one in cluster.get("extensions") or ():
        if one.get("name") == "client.authentication.k8s.io/exec":
            told["config"] = one.get("extension")
    return told


def load(kubeconfig: str | None, context: str | None) -> ApiServer:
    """The API server of a context. Raises CredentialsError."""
    files = _files(kubeconfig)
    documents = [(path, _read(path, named=bool(kubeconfig))) for path in files]
    wanted = context or next((one["current-context"] for _, one in documents if one.get("current-context")), None)
    if wanted is None:
        if kubeconfig is None and (server := _in_a_pod()) is not None:
            return server
        looked = ", ".join(str(path) for path in files)
        raise CredentialsError(f"no cluster to ask (no context in {looked}); set KUBECONFIG, or give --kubeconfig")
    chosen = _named(documents, "contexts", wanted).get("context") or {}
    cluster = _named(documents, "clusters", chosen.get("cluster")).get("cluster") or {}
    user = _named(documents, "users", chosen["user"]).get("user") or {} if chosen.get("user") else {}
    if not cluster.get("server"):
        raise CredentialsError(f"the kubeconfig cannot be read: cluster {chosen.get('cluster')!r} has no server")
    return ApiServer(str(cluster["server"]), str(chosen.get("namespace") or "default"), cluster, user)


def contexts(kubeconfig: str | None) -> Iterator[tuple[str, str]]:
    """(context, its cluster) of all contexts."""
    for path in _files(kubeconfig):
        for one in _read(path, named=False).get("contexts") or ():
            yield str(one["name"]), str((one.get("context") or {}).get("cluster", ""))


def _files(kubeconfig: str | None) -> list[Path]:
    if kubeconfig:
        return [Path(kubeconfig)]
    named = [part for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    return [Path(part) for part in named] or [Path.home() / ".kube" / "config"]


def _read(path: Path, *, named: bool) -> dict[str, Any]:
    """The kubeconfig, with relative paths resolved from its folder."""
    import yaml

    try:
        document = yaml.safe_load(path.read_text()) or {}
    except FileNotFoundError:
        if named:
            raise CredentialsError(f"the kubeconfig cannot be read: there is no {path}") from None
        return {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise CredentialsError(f"the kubeconfig cannot be read: {path}: {error}") from error
    if not isinstance(document, dict):
        raise CredentialsError(f"the kubeconfig cannot be read: {path} is no object")
    for entry in [
        *((one.get("cluster") or {}) for one in document.get("clusters") or ()),
        *((one.get("user") or {}) for one in document.get("users") or ()),
    ]:
        for name in ("certificate-authority", "client-certificate", "client-key", "tokenFile"):
            if name in entry:
                entry[name] = str(path.parent / entry[name])
        if "/" in (entry.get("exec") or {}).get("command", ""):
            entry["exec"]["command"] = str(path.parent / entry["exec"]["command"])
    return document


def _named(documents: list[tuple[Path, dict[str, Any]]], kind: str, name: str | None) -> Entry:
    for _, document in documents:
        for one in document.get(kind) or ():
            if one.get("name") == name:
                return dict(one)
    raise CredentialsError(f"the kubeconfig cannot be read: there is no {name!r} among its {kind}")


def _bytes_of(entry: Entry, name: str) -> bytes | None:
    """Bytes that the entry contains, or those of the file that it names."""
    if f"{name}-data" in entry:
        return base64.b64decode(entry[f"{name}-data"])
    return Path(entry[name]).read_bytes() if name in entry else None


def _in_a_pod() -> ApiServer | None:
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (POD / "token").exists():
        return None
    shown = f"[{host}]" if ":" in host else host
    cluster = {"certificate-authority": str(POD / "ca.crt")}
    namespace = POD / "namespace"
    here = namespace.read_text().strip() if namespace.exists() else "default"
    return ApiServer(f"https://{shown}:{port}", here, cluster, {"tokenFile": str(POD / "token")})
