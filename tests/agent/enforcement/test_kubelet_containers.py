"""Which pods really run, as the kubelet says, over a connection whose certificate is checked."""

from __future__ import annotations

import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cotenant_agent.enforcement.kubelet_containers import KubeletContainers, internal_address, pods_in
from cotenant_local.cluster.certificates import CertificateAuthority

NODE = {"status": {"addresses": [{"type": "Hostname", "address": "n"}, {"type": "InternalIP", "address": "127.0.0.1"}]}}
SUMMARY = {
    "pods": [
        {"podRef": {"uid": "runs"}, "containers": [{"name": "worker"}]},
        {"podRef": {"uid": "sandbox-only"}},
        {"podRef": {"uid": "ended"}, "containers": []},
    ]
}


class Kubelet:
    """An HTTPS server with this answer; `asked` are paths and tokens."""

    def __init__(self, folder: Path) -> None:
        self.status, self.text, self.asked = 200, json.dumps(SUMMARY), []  # type: ignore[var-annotated]
        certificate, key = CertificateAuthority(folder, "ca").issue("kubelet", common_name="k", hosts=("127.0.0.1",))
        kubelet = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                kubelet.asked.append((self.path, self.headers["Authorization"]))
                self.send_response(kubelet.status)
                self.end_headers()
                self.wfile.write(kubelet.text.encode())

            def log_message(self, *_: Any) -> None:
                return

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.server.server_address[1])


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[Kubelet]:
    (tmp_path / "token").write_text("secret\n")
    serving = Kubelet(tmp_path)
    yield serving
    serving.server.shutdown()
    serving.server.server_close()


def test_the_pods_with_a_running_container_are_read_at_the_nodes_own_address(kubelet: Kubelet, tmp_path: Path) -> None:
    containers = KubeletContainers(lambda: NODE, tmp_path, kubelet.port)
    assert containers.running_pods() == frozenset({"runs"})
    assert kubelet.asked == [("/stats/summary?only_cpu_and_memory=true", "Bearer secret")]


def test_a_server_of_another_authority_gets_no_token(kubelet: Kubelet, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "token").write_text("secret")
    CertificateAuthority(other, "ca")
    assert KubeletContainers(lambda: NODE, other, kubelet.port).running_pods() is None
    assert kubelet.asked == []


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (403, "{}"),
        (500, ""),
        (200, "no JSON"),
        (200, "[]"),
        (200, '{"pods": [{"containers": [1]}]}'),
        (200, "[" * 100_000),
    ],
    ids=["forbidden", "broken", "no JSON", "a list", "a pod without a uid", "nested"],
)
def test_an_answer_that_says_nothing_is_not_taken_for_an_empty_node(
    kubelet: Kubelet, tmp_path: Path, status: int, text: str
) -> None:
    kubelet.status, kubelet.text = status, text
    assert KubeletContainers(lambda: NODE, tmp_path, kubelet.port).running_pods() is None


def test_a_node_without_an_address_cannot_be_asked(tmp_path: Path) -> None:
    assert KubeletContainers(dict, tmp_path).running_pods() is None
    with pytest.raises(OSError, match="no InternalIP"):
        internal_address({})
    assert pods_in({"pods": None}) == frozenset()
