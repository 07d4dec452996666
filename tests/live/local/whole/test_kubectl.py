"""What people do to pods with kubectl: exec, cp, logs, attach, port-forward, debug; and what mistakes say."""

import contextlib
import json
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cotenant_local.host.errors import LocalError
from tests.live.waiting import timeout, wait_until

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = pytest.mark.cluster
TOOLS = "ghcr.io/cotenant/tools"
DEADLINE = 180.0


def apply(cluster: "Cluster", name: str, *command: str, image: str = TOOLS, **fields: Any) -> None:
    container = {"name": "main", "image": image, "command": command, **fields.pop("container", {})}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 5, **fields}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(pod))


@pytest.fixture(scope="module")
def pods(local_cluster: "Cluster") -> "Iterator[Cluster]":
    """A web server named `web` that also writes a line to its log now and then."""
    script = "mkdir /www; echo hello > /www/index.html; echo started; exec python3 -m http.server -d /www 8000"
    apply(local_cluster, "web", "/bin/sh", "-c", script)
    local_cluster.kubectl("wait", "--for=condition=Ready", "pod/web", timeout(DEADLINE))
    yield local_cluster
    names = local_cluster.kubectl("get", "pods", "-o", "name").split()
    if names:
        local_cluster.kubectl("delete", *names, "--wait")


def test_exec_passes_input_output_and_the_exit_code(pods: "Cluster") -> None:
    assert pods.kubectl("exec", "-i", "web", "--", "tr", "a-z", "A-Z", stdin="word") == "WORD"
    said = pods.kubectl("exec", "web", "--", "/bin/sh", "-c", "echo out; echo err >&2; exit 7", expect=7)
    assert {"out", "err"} <= set(said.splitlines())
    assert "executable file not found" in pods.kubectl("exec", "web", "--", "no-such", expect=127)


def test_files_are_copied_in_and_out(pods: "Cluster", tmp_path: Path) -> None:
    (tmp_path / "tree" / "deep").mkdir(parents=True)
    (tmp_path / "tree" / "deep" / "data").write_bytes(bytes(range(256)) * 4096)
    pods.kubectl("cp", str(tmp_path / "tree"), "web:/tmp/tree")
    pods.kubectl("cp", "web:/tmp/tree", str(tmp_path / "back"))
    assert (tmp_path / "back" / "deep" / "data").read_bytes() == (tmp_path / "tree" / "deep" / "data").read_bytes()


def test_a_port_is_forwarded_for_several_requests(pods: "Cluster") -> None:
    command = pods.command("kubectl", "port-forward", "pod/web", ":8000", "--address", "127.0.0.1")
    forward = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert forward.stdout
        port = re.match(r"Forwarding from 127\.0\.0\.1:(\d+)", forward.stdout.readline())
        assert port
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", int(port[1])), timeout=DEADLINE) as connection:
                connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
                assert b"".join(iter(lambda: connection.recv(4096), b"")).endswith(b"hello\n")
    finally:
        forward.kill()
        forward.wait()


def test_run_attaches_input_and_exits_with_the_programs_code(pods: "Cluster") -> None:
    command = pods.command("kubectl", "run", "piped", "-i", "--rm", "--quiet", "--restart=Never", f"--image={TOOLS}")
    done = subprocess.run(
        [*command, "--", "md5sum"], input="text", capture_output=True, text=True, timeout=DEADLINE, check=True
    )
    assert done.stdout.split() == ["1cb251ec0d568de6a929b520c4aed8d1", "-"]


def test_logs_are_followed_to_the_end_and_kept_of_the_run_before(pods: "Cluster") -> None:
    apply(
        pods,
        "counter",
        "/bin/sh",
        "-c",
        "for i in 1 2 3; do echo $i; sleep 0.2; done; exit 1",
        restartPolicy="OnFailure",
    )

    def said(*of: str) -> list[str]:
        with contextlib.suppress(LocalError):  # it has not started, or there is no run before yet
            return pods.kubectl("logs", *of).split()
        return []

    before = ("counter", "--previous")
    wait_until(lambda: said(*before) == ["1", "2", "3"], lambda: said(*before), seconds=DEADLINE)
    apply(pods, "short", "/bin/sh", "-c", "for i in 1 2 3; do echo $i; sleep 0.3; done", restartPolicy="Never")
    assert wait_until(lambda: said("-f", "short"), "the pod says something", seconds=DEADLINE) == ["1", "2", "3"]


def test_a_debug_container_sees_the_processes_of_its_target(pods: "Cluster") -> None:
    pods.kubectl("debug", "web", f"--image={TOOLS}", "--target=main", "-c", "look", "--", "pgrep", "-f", "http.server")
    ended = "jsonpath={.status.ephemeralContainerStatuses[0].state.terminated.exitCode}=0"
    try:
        pods.kubectl("wait", f"--for={ended}", "pod/web", timeout(DEADLINE))
    except LocalError as error:
        raise AssertionError(pods.kubectl("describe", "pod", "web")) from error
    assert pods.kubectl("logs", "web", "-c", "look").split() == ["1"]


@pytest.mark.parametrize(
    ("name", "fields", "reason", "message"),
    [
        ("no-image", {"image": "nginx:1"}, "ErrImagePull|ImagePullBackOff", "is not on this machine"),
        (
            "no-program",
            {"command": ["absent"]},
            "RunContainerError|CrashLoopBackOff|StartError",
            "executable file not found",
        ),
        (
            "no-profile",
            {"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "a.json"}}},
            "CreateContainerError",
            "only RuntimeDefault and Unconfined are provided",
        ),
    ],
)
def test_a_pod_that_cannot_run_says_why(
    pods: "Cluster", name: str, fields: dict[str, Any], reason: str, message: str
) -> None:
    apply(pods, name, "true", container=fields)

    def state() -> str:
        status = json.loads(pods.kubectl("get", "pod", name, "-o", "json"))["status"]
        return json.dumps(status.get("containerStatuses", []))

    def says_why() -> bool:
        return bool(re.search(f'"reason": "({reason})"', now := state())) and message in now

    wait_until(says_why, state, seconds=DEADLINE)
    pods.kubectl("delete", "pod", name, "--wait")
