"""Exec, attach and port-forward as kubectl and the Python client reach them, as root and as an ordinary user."""

import json
import urllib.parse
from collections.abc import Iterator

import pytest

from cotenant_local.runtime.interface import proto

from .sandbox import Kubelet, wait_for
from .spdy_client import Client

pytestmark = pytest.mark.sandbox

EXEC, FORWARD = "v4.channel.k8s.io", "portforward.k8s.io"


@pytest.fixture(scope="module")
def shell(node: Kubelet) -> Iterator[str]:
    """A container in which there is time to run things."""
    container = node.start(node.pod("shell"), "sleep", "10000")
    yield container
    node.stop(container)


def visit(node: Kubelet, url: str, protocol: str) -> Client:
    parts = urllib.parse.urlsplit(url)
    return Client(node.connect(parts.port or 80), parts.path, protocol)


def execute(node: Kubelet, container: str, *command: str, stdin: bool = False, tty: bool = False) -> Client:
    request = proto.pb.ExecRequest(
        container_id=container, cmd=command, stdin=stdin, tty=tty, stdout=True, stderr=not tty
    )
    return visit(node, node.runtime.Exec(request).url, EXEC)


def test_exec_carries_three_streams_and_the_exit_code(node: Kubelet, shell: str) -> None:
    client = execute(node, shell, "/bin/sh", "-c", "cat; echo problem >&2; exit 3", stdin=True)
    error, stdin = client.open(streamtype="error"), client.open(streamtype="stdin")
    stdout, stderr = client.open(streamtype="stdout"), client.open(streamtype="stderr")
    client.send(stdin, b"hello ")
    client.send(stdin, b"there", end=True)
    assert client.until(stdout) == b"hello there"
    assert client.until(stderr) == b"problem\n"
    status = json.loads(client.until(error))
    assert (status["status"], status["reason"]) == ("Failure", "NonZeroExitCode")
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
    assert not client.read_frame()  # the server hangs up


def test_exec_of_a_success_and_of_a_missing_program(node: Kubelet, shell: str) -> None:
    for command, want in (("true", "Success"), ("no-such", "Failure")):
        client = execute(node, shell, command)
        error, _, stderr = (client.open(streamtype=kind) for kind in ("error", "stdout", "stderr"))
        assert json.loads(client.until(error))["status"] == want
        assert (b'exec: "no-such": executable file not found' in client.until(stderr)) == (want == "Failure")


def test_a_terminal_has_the_size_that_the_client_says(node: Kubelet, shell: str) -> None:
    script = "trap 'stty size' WINCH; stty size; echo ready; while :; do sleep 0.05; done"
    client = execute(node, shell, "/bin/sh", "-c", script, stdin=True, tty=True)
    kinds = ("error", "stdin", "stdout", "resize")
    _, stdin, stdout, resize = (client.open(streamtype=kind) for kind in kinds)
    client.until(stdout, b"ready")
    client.send(resize, b'{"Width":91,"Height":37}\n')
    client.until(stdout, b"37 91")
    client.send(stdin, b"\x03")  # Ctrl-C comes through the terminal as a signal
    assert b"^C" in client.until(stdout)


def test_a_client_that_leaves_takes_its_program_with_it(node: Kubelet, shell: str) -> None:
    client = execute(node, shell, "sleep", "7777")
    for kind in ("error", "stdout", "stderr"):
        client.open(streamtype=kind)
    count = ("pgrep", "-c", "-f", "^sleep 7777")
    wait_for(lambda: node.execute(shell, *count).stdout == b"1\n", "the program to run")
    client.connection.close()
    wait_for(lambda: node.execute(shell, *count).stdout == b"0\n", "the program to end")


def test_much_output_arrives_whole(node: Kubelet, shell: str) -> None:
    client = execute(node, shell, "/bin/sh", "-c", "head -c 5000000 /dev/zero")
    _, stdout, _ = (client.open(streamtype=kind) for kind in ("error", "stdout", "stderr"))
    assert len(client.until(stdout)) == 5_000_000


def test_an_address_is_good_once_and_for_one_thing(node: Kubelet, shell: str) -> None:
    request = proto.pb.ExecRequest(container_id=shell, cmd=["true"], stdout=True)
    url = node.runtime.Exec(request).url
    assert visit(node, url.replace("/exec/", "/attach/"), EXEC).status == 404
    url = node.runtime.Exec(request).url
    assert visit(node, url, EXEC).status == 101
    assert visit(node, url, EXEC).status == 404
    assert visit(node, node.runtime.Exec(request).url, "v9.channel.k8s.io").status == 403


def test_attach_shows_what_comes_and_gives_input_to_the_program(node: Kubelet) -> None:
    pod = node.pod("attach")
    script = "while read line; do echo got $line; done; echo end"
    container = node.start(pod, "/bin/sh", "-c", script, stdin=True, stdin_once=True)
    asked = proto.pb.AttachRequest(container_id=container, stdin=True, stdout=True, stderr=True)
    client = visit(node, node.runtime.Attach(asked).url, EXEC)
    error, stdin = client.open(streamtype="error"), client.open(streamtype="stdin")
    stdout, _ = client.open(streamtype="stdout"), client.open(streamtype="stderr")
    client.send(stdin, b"one\n")
    client.until(stdout, b"got one\n")
    client.send(stdin, b"two\n", end=True)
    assert client.until(stdout) == b"got one\ngot two\nend\n"
    assert json.loads(client.until(error))["status"] == "Success"
    assert node.finish(container).exit_code == 0
    assert [line.split(" ", 3)[3] for line in node.log(container)] == ["got one", "got two", "end"]


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


def test_attach_to_a_terminal_shares_it_and_leaving_does_not_end_the_program(node: Kubelet) -> None:
    pod = node.pod("terminal")
    # Size and input come by different streams: the program waits until it has the size that the input names.
    script = (
        'stty -echo; while read size; do until [ "$(stty size)" = "$size" ]; do sleep 0.05; done; echo "<$size>"; done'
    )
    container = node.start(pod, "/bin/sh", "-c", script, stdin=True, tty=True)
    asked = proto.pb.AttachRequest(container_id=container, stdin=True, stdout=True, tty=True)
    for columns in (80, 101):
        client = visit(node, node.runtime.Attach(asked).url, EXEC)
        kinds = ("error", "stdin", "stdout", "resize")
        _, stdin, stdout, resize = (client.open(streamtype=kind) for kind in kinds)
        client.send(resize, json.dumps({"Width": columns, "Height": 24}).encode())
        client.send(stdin, f"24 {columns}\n".encode())
        client.until(stdout, f"<24 {columns}>".encode())
        client.connection.close()
    assert node.status(container).state == proto.pb.CONTAINER_RUNNING
    node.stop(container)
