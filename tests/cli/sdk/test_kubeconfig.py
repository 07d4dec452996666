"""A kubeconfig means what it means to kubectl: who asks, and where."""

from __future__ import annotations

import json
import ssl
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from cotenant.sdk import kubeconfig
from cotenant.sdk.errors import CredentialsError


def written(path: Path, *, user: dict[str, Any], **changes: Any) -> Path:
    document = {
        "current-context": "usual",
        "clusters": [{"name": "c", "cluster": {"server": "https://api:6443"}}],
        "users": [{"name": "alice", "user": user}],
        "contexts": [{"name": "usual", "context": {"cluster": "c", "user": "alice", "namespace": "red"}}],
    }
    path.write_text(yaml.safe_dump(document | changes))
    return path


@pytest.mark.parametrize(
    ("user", "header"),
    [
        ({"token": "t"}, "Bearer t"),
        ({"tokenFile": "token"}, "Bearer of-the-file"),
        ({"username": "a", "password": "b"}, "Basic YTpi"),
        ({"auth-provider": {"name": "oidc", "config": {"id-token": "t", "refresh-token": "r"}}}, "Bearer t"),
        ({}, None),
    ],
)
def test_who_asks_is_said_by_what_the_user_has(tmp_path: Path, user: dict[str, Any], header: str | None) -> None:
    (tmp_path / "token").write_text("of-the-file\n")
    server = kubeconfig.load(str(written(tmp_path / "config", user=user)), None)
    assert (server.url, server.namespace, server.authorization().get("Authorization")) == (
        "https://api:6443", "red", header
    )  # fmt: skip


@pytest.mark.parametrize(
    ("user", "headers"),
    [
        ({"as": "bob"}, {"Impersonate-User": "bob"}),
        (
            {"as": "bob", "as-uid": "7", "as-groups": ["ml"]},
            {"Impersonate-User": "bob", "Impersonate-Uid": "7", "Impersonate-Group": "ml"},
        ),
    ],
)
def test_who_acts_as_another_user_does_not_act_as_itself(
    tmp_path: Path, user: dict[str, Any], headers: dict[str, str]
) -> None:
    server = kubeconfig.load(str(written(tmp_path / "config", user={"token": "t"} | user)), None)
    assert server.authorization() == {"Authorization": "Bearer t"} | headers


@pytest.mark.parametrize(
    ("user", "refusal"),
    [
        ({"as": "bob", "as-groups": ["ml", "staff"]}, "name at most one group"),
        ({"as": "bob", "as-user-extra": {"reason": ["test"]}}, "by as-user-extra"),
        ({"auth-provider": {"name": "gcp"}}, "auth-provider gcp, which has no id-token; use an exec plugin"),
    ],
)
def test_a_login_that_is_not_supported_is_refused(tmp_path: Path, user: dict[str, Any], refusal: str) -> None:
    with pytest.raises(CredentialsError, match=refusal):
        kubeconfig.load(str(written(tmp_path / "config", user=user)), None).authorization()


def test_a_plugin_is_run_once_until_what_it_gave_expires(tmp_path: Path) -> None:
    def plugin(until: datetime) -> dict[str, Any]:
        status = {"token": "t", "expirationTimestamp": until.isoformat()}
        code = f"open('runs', 'a').write('.'); print({json.dumps(json.dumps({'status': status}))})"
        return {"exec": {"command": sys.executable, "args": ["-c", f"import os; os.chdir({str(tmp_path)!r}); {code}"]}}

    for until, runs in ((timedelta(hours=1), 1), (timedelta(hours=-1), 2)):
        (tmp_path / "runs").write_text("")
        config = written(tmp_path / "config", user=plugin(datetime.now(UTC) + until))
        server = kubeconfig.load(str(config), None)
        assert [server.authorization() for _ in range(2)] == [{"Authorization": "Bearer t"}] * 2
        assert len((tmp_path / "runs").read_text()) == runs


def test_a_plugin_that_wants_to_know_the_cluster_is_told_of_it(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(b"an authority")
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"shoot": "s1"}}
    cluster = {"server": "https://api", "certificate-authority": "ca.crt", "extensions": [{"name": "x"}, extension]}
    code = "import json, os; asked = json.loads(os.environ['KUBERNETES_EXEC_INFO'])['spec']"
    told = "print(json.dumps({'status': {'token': json.dumps(asked.get('cluster'))}}))"
    plugin = {"command": sys.executable, "args": ["-c", f"{code}; {told}"], "provideClusterInfo": True}
    known = {"server": "https://api", "certificate-authority-data": "YW4gYXV0aG9yaXR5", "config": {"shoot": "s1"}}
    for wants, expected in ((True, known), (False, None)):
        user = {"exec": plugin | {"provideClusterInfo": wants}}
        config = written(tmp_path / "config", user=user, clusters=[{"name": "c", "cluster": cluster}])
        header = kubeconfig.load(str(config), None).authorization()["Authorization"]
        assert json.loads(header.removeprefix("Bearer ")) == expected


def test_a_plugin_that_fails_is_named(tmp_path: Path) -> None:
    server = kubeconfig.load(str(written(tmp_path / "config", user={"exec": {"command": "there-is-none"}})), None)
    with pytest.raises(CredentialsError, match="there-is-none does not say who you are"):
        server.authorization()


def test_of_several_files_the_first_that_has_an_entry_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = written(tmp_path / "first", user={"token": "first"}, clusters=[], contexts=[])
    second = written(tmp_path / "second", user={"token": "second"})
    monkeypatch.setenv("KUBECONFIG", f"{first}:{second}:{tmp_path / 'none'}")
    assert kubeconfig.load(None, None).authorization() == {"Authorization": "Bearer first"}
    assert list(kubeconfig.contexts(None)) == [("usual", "c")]


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"current-context": "other"}, "there is no 'other' among its contexts"),
        ({"users": []}, "there is no 'alice' among its users"),
        ({"clusters": [{"name": "c", "cluster": {}}]}, "cluster 'c' has no server"),
        ({"current-context": ""}, "no context in"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, changes: dict[str, Any], refusal: str) -> None:
    with pytest.raises(CredentialsError, match=refusal):
        kubeconfig.load(str(written(tmp_path / "config", user={}, **changes)), None)


def test_in_a_pod_it_is_the_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setattr(kubeconfig, "POD", tmp_path)
    (tmp_path / "token").write_text("of-the-pod")
    server = kubeconfig.load(None, None)
    assert (server.url, server.authorization()) == ("https://[fd00::1]:443", {"Authorization": "Bearer of-the-pod"})
    assert server.namespace == "default"
    (tmp_path / "namespace").write_text("red")
    there = kubeconfig.load(None, None)
    assert there.namespace == "red"


def test_a_certificate_is_checked_unless_the_cluster_says_not_to() -> None:
    strict = kubeconfig.ApiServer("https://a", "default", {}, {}).tls()
    loose = kubeconfig.ApiServer("https://a", "default", {"insecure-skip-tls-verify": True}, {}).tls()
    assert (strict.verify_mode, strict.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert (loose.verify_mode, loose.check_hostname) == (ssl.CERT_NONE, False)
