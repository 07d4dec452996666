"""Reads the kubeconfig of a RemoteCluster strictly. Entries that would run a program or read a file in the operator's
pod are refused.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Annotated, Any

import kubernetes.config
import yaml
from kubernetes.client import Configuration
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from cotenant.controller.composites.remote_clusters.trouble import TroubleError

KEY = "kubeconfig"
"""Key in the data of the Secret."""
_REFUSED: Mapping[str, str] = {
    "exec": "would run a program in the operator's pod; write a token or a certificate instead",
    "auth-provider": "would run code of a cloud's in the operator's pod; write a token or a certificate instead",
    "tokenFile": "names a file of the operator's pod; write `token` with the token itself",
    "client-certificate": "names a file of the operator's pod; write `client-certificate-data`",
    "client-key": "names a file of the operator's pod; write `client-key-data`",
    "certificate-authority": "names a file of the operator's pod; write `certificate-authority-data`",
    "insecure-skip-tls-verify": "would talk to any server that answers; write `certificate-authority-data`",
    "as": "is not supported; use an account of its own",
}
_STRICT = ConfigDict(extra="forbid", frozen=True)
_LOOSE = ConfigDict(extra="ignore", frozen=True)
_Https = Annotated[str, StringConstraints(pattern=r"^https://[^\s]+$")]
_HttpProxy = Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+$")]


class _Server(BaseModel):
    model_config = _STRICT
    server: _Https
    ca: str | None = Field(default=None, alias="certificate-authority-data")
    name: str | None = Field(default=None, alias="tls-server-name")
    proxy: _HttpProxy | None = Field(default=None, alias="proxy-url")
    extensions: Any = None


class _Account(BaseModel):
    model_config = _STRICT
    token: str | None = None
    certificate: str | None = Field(default=None, alias="client-certificate-data")
    key: str | None = Field(default=None, alias="client-key-data")
    username: str | None = None
    password: str | None = None
    extensions: Any = None


class _NamedServer(BaseModel):
    model_config = _LOOSE
    name: str
    cluster: dict[str, Any]


class _NamedAccount(BaseModel):
    model_config = _LOOSE
    name: str
    user: dict[str, Any]


class _Choice(BaseModel):
    model_config = _LOOSE
    cluster: str
    user: str


class _NamedChoice(BaseModel):
    model_config = _LOOSE
    name: str
    context: _Choice


class _Kubeconfig(BaseModel):
    model_config = _LOOSE
    current: str = Field(alias="current-context")
    contexts: tuple[_NamedChoice, ...]
    clusters: tuple[_NamedServer, ...]
    users: tuple[_NamedAccount, ...]


def configuration_of(secret: Mapping[str, Any], name: str) -> Configuration:
    """Address and credentials from the Secret of this name. Raises TroubleError."""
    encoded = (secret.get("data") or {}).get(KEY)
    if not encoded:
        raise _unusable(name, f"it has no key `{KEY}`")
    try:
        document = yaml.safe_load(base64.b64decode(encoded, validate=True))
        read = _Kubeconfig.model_validate(document)
    except (binascii.Error, UnicodeDecodeError, yaml.YAMLError) as error:
        raise _unusable(name, f"it is no YAML ({type(error).__name__})") from error
    except ValidationError as error:
        raise _unusable(name, _said(error)) from error
    chosen = _named(read.contexts, read.current, name, "context").context
    server = _named(read.clusters, chosen.cluster, name, "cluster")
    account = _named(read.users, chosen.user, name, "user")
    _checked(_Server, server.cluster, f"cluster {chosen.cluster}", name)
    _checked(_Account, account.user, f"user {chosen.user}", name)
    configuration = Configuration()
    only = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": read.current,
        "contexts": [{"name": read.current, "context": {"cluster": chosen.cluster, "user": chosen.user}}],
        "clusters": [{"name": chosen.cluster, "cluster": server.cluster}],
        "users": [{"name": chosen.user, "user": account.user}],
    }
    try:
        kubernetes.config.load_kube_config_from_dict(only, client_configuration=configuration, persist_config=False)
    except (kubernetes.config.ConfigException, ValueError, TypeError) as error:
        raise _unusable(name, str(error)) from error
    return configuration


def _named(items: tuple[Any, ...], wanted: str, secret: str, what: str) -> Any:
    found = next((one for one in items if one.name == wanted), None)
    if found is None:
        raise _unusable(secret, f"it names the {what} {wanted!r}, and has none of this name")
    return found


def _checked(model: type[BaseModel], value: Mapping[str, Any], part: str, secret: str) -> None:
    for field, why in _REFUSED.items():
        if value.get(field):
            raise TroubleError("KubeconfigRefused", f"Secret {secret}: `{field}` of {part} {why}")
    given = {key: one for key, one in value.items() if key not in _REFUSED}
    try:
        model.model_validate(given)
    except ValidationError as error:
        raise _unusable(secret, f"{part}: {_said(error)}") from error


def _said(error: ValidationError) -> str:
    """The first error, without the value, which may be a secret."""
    first = error.errors(include_input=False, include_url=False)[0]
    field = ".".join(map(str, first["loc"])) or "the document"
    if field == "server":
        return "`server` must be an address that begins with https://"
    if field == "proxy-url":
        return "`proxy-url` must be an address that begins with http:// or https://"
    return f"`{field}`: {first['msg']}"


def _unusable(secret: str, why: str) -> TroubleError:
    return TroubleError("KubeconfigInvalid", f"Secret {secret}: {why}; write a whole kubeconfig into it")
