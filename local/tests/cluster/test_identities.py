"""Identities of a cluster's parts: each is the user that Kubernetes gives its rights to, and no other."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from cotenant_local.cluster import identities
from cotenant_local.host.cluster_folder import ClusterFolder
from local.tests.plans import cluster_plan


@pytest.fixture
def state(tmp_path: Path) -> ClusterFolder:
    folder = ClusterFolder(tmp_path)
    folder.prepare()
    identities.create(folder, cluster_plan(2))
    return folder


def subject(pem: bytes) -> str:
    return x509.load_pem_x509_certificate(pem).subject.rfc4514_string()


def test_every_certificate_is_of_one_user_with_its_groups(state: ClusterFolder) -> None:
    found = {file.stem: subject(file.read_bytes()) for file in state.pki.glob("*.crt")}
    assert found == {
        "ca": "CN=cotenant-local-ca",
        "front-proxy-ca": "CN=cotenant-local-front-proxy-ca",
        "etcd-ca": "CN=cotenant-local-etcd-ca",
        "apiserver": "CN=kube-apiserver",
        "apiserver-kubelet-client": "CN=kube-apiserver,O=system:masters",
        "apiserver-etcd-client": "CN=kube-apiserver",
        "front-proxy-client": "CN=front-proxy-client",
        "etcd": "CN=etcd",
        "metrics-serving": "CN=metrics-server.kube-system.svc",
        "admin": "CN=kubernetes-admin,O=system:masters",
        **{
            name: f"CN=system:{name}"
            for name in (
                "kube-controller-manager",
                "kube-scheduler",
                "kube-proxy",
                "coredns",
                "network-policies",
                "volumes",
                "metrics",
            )
        },
        **{f"node-{n}": f"CN=system:node:node-{n},O=system:nodes" for n in (1, 2)},
        **{f"node-{n}-serving": f"CN=system:node:node-{n}" for n in (1, 2)},
    }


@pytest.mark.parametrize(
    ("name", "issuer"),
    [
        ("apiserver", "ca"),
        ("node-1", "ca"),
        ("etcd", "etcd-ca"),
        ("apiserver-etcd-client", "etcd-ca"),
        ("front-proxy-client", "front-proxy-ca"),
    ],
)
def test_etcd_and_the_front_proxy_have_authorities_of_their_own(state: ClusterFolder, name: str, issuer: str) -> None:
    certificate, signer = (
        x509.load_pem_x509_certificate((state.pki / f"{each}.crt").read_bytes()) for each in (name, issuer)
    )
    certificate.verify_directly_issued_by(signer)


def test_the_api_server_is_known_by_every_name_under_which_it_is_called(state: ClusterFolder) -> None:
    certificate = x509.load_pem_x509_certificate((state.pki / "apiserver.crt").read_bytes())
    hosts = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {str(host.value) for host in hosts} == {
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
        "localhost",
        "10.89.0.1",
        "10.96.0.1",
        "127.0.0.1",
    }


def test_a_kubeconfig_has_everything_inside_and_is_the_owners_alone(state: ClusterFolder) -> None:
    document: dict[str, Any] = json.loads(state.kubeconfig.read_text())
    user, cluster = document["users"][0]["user"], document["clusters"][0]
    assert (cluster["name"], cluster["cluster"]["server"]) == ("cotenant-demo", "https://127.0.0.1:40000")
    assert base64.b64decode(cluster["cluster"]["certificate-authority-data"]) == (state.pki / "ca.crt").read_bytes()
    assert subject(base64.b64decode(user["client-certificate-data"])) == "CN=kubernetes-admin,O=system:masters"
    assert base64.b64decode(user["client-key-data"]) == (state.pki / "admin.key").read_bytes()
    assert document["current-context"] == document["contexts"][0]["name"] == "cotenant-demo"
    assert state.kubeconfig.stat().st_mode & 0o777 == 0o600


def test_parts_inside_reach_the_api_server_by_its_own_address(state: ClusterFolder) -> None:
    files = sorted(file.name for file in state.config.glob("*.kubeconfig"))
    assert files == sorted(
        [*(f"{name}.kubeconfig" for name in identities.COMPONENTS), *(f"kubelet-node-{n}.kubeconfig" for n in (1, 2))]
    )
    servers = {json.loads((state.config / file).read_text())["clusters"][0]["cluster"]["server"] for file in files}
    assert servers == {"https://10.89.0.1:6443"}
