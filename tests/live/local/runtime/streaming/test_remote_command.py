"""Exec, attach and port-forward as kubectl and the Python client reach them, as root and as an ordinary user."""

import json

import pytest

from cotenant_local.runtime.interface import proto
from tests.live.local.runtime.sandbox import Kubelet, wait_for
from tests.live.local.runtime.spdy_client import EXEC, Client, visit


def execute(node: Kubelet, container: str, *command: str, stdin: bool = False, tty: bool = False) -> Client:
    request = proto.pb.ExecRequest(
        container_id=container, cmd=command, stdin=stdin, tty=tty, stdout=True, stderr=not tty
    )
    return visit(node, node.runtime.Exec(request).url, EXEC)


@pytest.mark.sandbox
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


@pytest.mark.sandbox
def test_exec_of_a_success_and_of_a_missing_program(node: Kubelet, shell: str) -> None:
    for command, want in (("true", "Success"), ("no-such", "Failure")):
        client = execute(node, shell, command)
        error, _, stderr = (client.open(streamtype=kind) for kind in ("error", "stdout", "stderr"))
        assert json.loads(client.until(error))["status"] == want
        assert (b'exec: "no-such": executable file not found' in client.until(stderr)) == (want == "Failure")


@pytest.mark.sandbox
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


@pytest.mark.sandbox
def test_a_client_that_leaves_takes_its_program_with_it(node: Kubelet, shell: str) -> None:
    client = execute(node, shell, "sleep", "7777")
    for kind in ("error", "stdout", "stderr"):
        client.open(streamtype=kind)
    count = ("pgrep", "-c", "-f", "^sleep 7777")
    wait_for(lambda: node.execute(shell, *count).stdout == b"1\n", "the program to run")
    client.connection.close()
    wait_for(lambda: node.execute(shell, *count).stdout == b"0\n", "the program to end")


@pytest.mark.sandbox
def test_much_output_arrives_whole(node: Kubelet, shell: str) -> None:
    client = execute(node, shell, "/bin/sh", "-c", "head -c 5000000 /dev/zero")
    _, stdout, _ = (client.open(streamtype=kind) for kind in ("error", "stdout", "stderr"))
    assert len(client.until(stdout)) == 5_000_000


@pytest.mark.sandbox
def test_an_address_is_good_once_and_for_one_thing(node: Kubelet, shell: str) -> None:
    request = proto.pb.ExecRequest(container_id=shell, cmd=["true"], stdout=True)
    url = node.runtime.Exec(request).url
    assert visit(node, url.replace("/exec/", "/attach/"), EXEC).status == 404
    url = node.runtime.Exec(request).url
    assert visit(node, url, EXEC).status == 101
    assert visit(node, url, EXEC).status == 404
    assert visit(node, node.runtime.Exec(request).url, "v9.channel.k8s.io").status == 403


@pytest.mark.sandbox
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


@pytest.mark.sandbox
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
