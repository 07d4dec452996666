"""Kubeconfigs of Secrets: what is read, and what is refused with what to write instead."""

from __future__ import annotations

import base64
from copy import deepcopy
from typing import Any

import pytest

from cotenant.controller.client.credentials import authorization
from cotenant.controller.composites.remote_clusters.kubeconfig import configuration_of
from cotenant.controller.composites.remote_clusters.trouble import TroubleError
from tests.controller.composites.remote_clusters.two_clusters import KUBECONFIG, secret


def changed(**parts: Any) -> dict[str, Any]:
    """`cluster` and `user` are the parts of the one entry; others stand at the top."""
    document = deepcopy(KUBECONFIG)
    for part, entries in (("cluster", "clusters"), ("user", "users")):
        if part in parts:
            document[entries][0][part] = parts.pop(part)  # type: ignore[index]
    return document | parts


def refused(kubeconfig: Any) -> str:
    with pytest.raises(TroubleError) as error:
        configuration_of(secret(kubeconfig), "there")
    return f"{error.value.reason}: {error.value.message}"


def test_a_token_and_an_address_are_enough() -> None:
    found = configuration_of(secret(), "there")
    assert (found.host, authorization(found)) == ("https://there.example", {"Authorization": "Bearer sesame"})


REFUSED = {
    "a program": (
        {"user": {"exec": {"command": "sh", "apiVersion": "client.authentication.k8s.io/v1"}}},
        "`exec` of user spill would run a program in the operator's pod",
    ),
    "a cloud's plugin": ({"user": {"auth-provider": {"name": "gcp"}}}, "`auth-provider` of user spill would run code"),
    "a token in a file": ({"user": {"tokenFile": "/token"}}, "`tokenFile` of user spill names a file"),
    "a key in a file": (
        {"user": {"client-certificate": "/a", "client-key": "/b"}},
        "`client-certificate` of user spill names a file",
    ),
    "an authority in a file": (
        {"cluster": {"server": "https://there", "certificate-authority": "/ca"}},
        "`certificate-authority` of cluster there names a file",
    ),
    "any server": (
        {"cluster": {"server": "https://there", "insecure-skip-tls-verify": True}},
        "`insecure-skip-tls-verify` of cluster there would talk to any server",
    ),
    "somebody else": ({"user": {"token": "a", "as": "admin"}}, "`as` of user spill is not supported"),
}


@pytest.mark.parametrize(("parts", "says"), REFUSED.values(), ids=list(REFUSED))
def test_what_reaches_into_the_operators_pod_is_refused(parts: dict[str, Any], says: str) -> None:
    said = refused(changed(**parts))
    assert said.startswith("KubeconfigRefused: Secret there: ")
    assert says in said


UNUSABLE = {
    "without TLS": ({"cluster": {"server": "http://there"}}, "`server` must be an address that begins with https://"),
    "a proxy that is not spoken to": (
        {"cluster": {"server": "https://there", "proxy-url": "socks5://bastion:1080"}},
        "`proxy-url` must be an address that begins with http:// or https://",
    ),
    "no such context": ({"current-context": "other"}, "it names the context 'other', and has none of this name"),
    "no users": ({"users": []}, "it names the user 'spill', and has none of this name"),
    "an unknown field": ({"user": {"token": "a", "magic": 1}}, "user spill: `magic`"),
    "a list": ({"contexts": "none"}, "`contexts`"),
}


@pytest.mark.parametrize(("parts", "says"), UNUSABLE.values(), ids=list(UNUSABLE))
def test_what_cannot_be_used_is_named_without_its_secrets(parts: dict[str, Any], says: str) -> None:
    said = refused(changed(**parts))
    assert said.startswith("KubeconfigInvalid: Secret there: ")
    assert says in said
    assert "sesame" not in said


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({}, "it has no key `kubeconfig`"),
        ({"kubeconfig": "?"}, "it is no YAML"),
        ({"kubeconfig": base64.b64encode(b"{").decode()}, "it is no YAML"),
        ({"kubeconfig": base64.b64encode(b"a text").decode()}, "`the document`"),
    ],
)
def test_a_secret_without_a_kubeconfig_says_what_to_write(data: dict[str, str], says: str) -> None:
    with pytest.raises(TroubleError) as error:
        configuration_of({"data": data}, "there")
    assert says in error.value.message
