"""Ports of a pod as kubectl reaches them, over SPDY."""

import pytest

from cotenant_local.runtime.interface import proto
from tests.live.local.runtime.sandbox import Kubelet, wait_for
from tests.live.local.runtime.spdy_client import FORWARD, visit


@pytest.mark.sandbox
def test_ports_of_a_pod_are_forwarded_and_a_closed_one_says_so(node: Kubelet) -> None:
    pod = node.pod("ports")
    server = "import socket as s\nl=s.create_server(('127.0.0.1',7070))\nprint('up',flush=True)\n"
    server += "while 1:\n c=l.accept()[0]\n c.sendall(c.recv(99).upper())\n c.close()"
    container = node.start(pod, "python3", "-c", server)
    wait_for(lambda: node.log(container), "the server")
    client = visit(node, node.runtime.PortForward(proto.pb.PortForwardRequest(pod_sandbox_id=pod)).url, FORWARD)
    pairs = []
    for request, port in (("0", "7070"), ("1", "7070"), ("2", "7071")):
        kinds = ("error", "data")
        pairs.append([client.open(streamtype=kind, port=port, requestid=request) for kind in kinds])
    for index, (_, data) in enumerate(pairs[:2]):
        client.send(data, f"word {index}".encode())
    assert [client.until(data) for _, data in pairs[:2]] == [b"WORD 0", b"WORD 1"]
    assert (
        client.until(pairs[2][0])
        == f"error forwarding port 7071 to pod {pod}: port 7071: [Errno 111] Connection refused".encode()
    )
    bad = client.open(streamtype="data", port="none", requestid="3")
    client.control(6, (77).to_bytes(4, "big"))
    while bad not in client.refused or 0 not in client.received:
        assert client.read_frame()
    assert client.received[0] == (77).to_bytes(4, "big")  # a ping comes back as it was
    node.stop(container)
