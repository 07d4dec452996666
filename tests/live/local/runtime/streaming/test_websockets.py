"""Exec and ports as the Python client and browsers reach them."""

import json
import urllib.parse

import pytest

from cotenant_local.runtime.interface import proto
from tests.live.local.runtime.sandbox import Kubelet, wait_for

WEBSOCKET = """
import asyncio, aiohttp, json, sys
async def main(fd, url, kind):
    import socket
    connection = socket.socket(fileno=int(fd))
    class Inside(aiohttp.TCPConnector):
        async def _wrap_create_connection(self, *args, addr_infos=None, req=None, **options):
            factory = args[0]
            return await asyncio.get_running_loop().create_connection(factory, sock=connection)
    async with aiohttp.ClientSession(connector=Inside()) as session:
        async with session.ws_connect(url, protocols=["v4.channel.k8s.io"]) as ws:
            if kind == "exec":
                await ws.send_bytes(b"\\x00typed\\n")
            else:
                await ws.send_bytes(b"\\x00hello")
            said = {}
            async for message in ws:
                said[message.data[0]] = said.get(message.data[0], b"") + message.data[1:]
            print(json.dumps({channel: data.decode("latin-1") for channel, data in said.items()}))
asyncio.run(main(*sys.argv[1:]))
"""


def websocket(node: Kubelet, url: str, kind: str) -> dict[str, str]:
    import subprocess
    import sys

    with node.connect(urllib.parse.urlsplit(url).port or 80) as connection:
        command = [sys.executable, "-c", WEBSOCKET, str(connection.fileno()), url, kind]
        done = subprocess.run(command, pass_fds=[connection.fileno()], capture_output=True, text=True, check=True)
    answer: dict[str, str] = json.loads(done.stdout)
    return answer


@pytest.mark.sandbox
def test_websocket_clients_reach_exec_and_ports_too(node: Kubelet, shell: str) -> None:
    command = ["/bin/sh", "-c", "read word; echo $word; echo no >&2; exit 4"]
    request = proto.pb.ExecRequest(container_id=shell, cmd=command, stdin=True, stdout=True, stderr=True)
    said = websocket(node, node.runtime.Exec(request).url, "exec")
    assert (said["1"], said["2"]) == ("typed\n", "no\n")
    assert json.loads(said["3"])["details"]["causes"][0]["message"] == "4"
    pod = node.pod("ws-ports")
    server = "import socket as s\nl=s.create_server(('',7070))\nprint('up',flush=True)\n"
    server += "c=l.accept()[0]\nc.sendall(c.recv(99).upper())\nc.close()"
    container = node.start(pod, "python3", "-c", server)
    wait_for(lambda: node.log(container), "the server")
    asked = proto.pb.PortForwardRequest(pod_sandbox_id=pod, port=[7070])
    said = websocket(node, node.runtime.PortForward(asked).url, "ports")
    port = (7070).to_bytes(2, "little").decode("latin-1")
    assert said == {"0": port + "HELLO", "1": port}
