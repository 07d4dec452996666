"""Pods and containers through the kubelet's own interface, as root and as an ordinary user."""

import pytest

from cotenant_local.runtime import proto

from .sandbox import Kubelet


def test_a_container_says_its_exit_code_and_its_log_has_both_streams(node: Kubelet) -> None:
    pod = node.pod("exit")
    container = node.start(pod, "/bin/sh", "-c", "echo out; echo err >&2; printf unfinished; exit 3")
    status = node.finish(container)
    lines = sorted(line.split(" ", 1)[1] for line in node.log(container))
    assert (status.exit_code, status.reason) == (3, "Error")
    assert lines == ["stderr F err", "stdout F out", "stdout F unfinished"]


@pytest.mark.parametrize(("uid", "gid"), [(0, 0), (65532, 65532), (1234, 77)])
def test_the_program_sees_itself_as_the_user_it_was_asked_to_be(node: Kubelet, uid: int, gid: int) -> None:
    value = proto.pb.Int64Value
    security = {"run_as_user": value(value=uid), "run_as_group": value(value=gid)}
    script = "id -u; id -g; touch /tmp/mine; stat -c %u:%g /tmp/mine"
    assert node.output(node.pod(f"user{uid}"), script, security=security) == f"{uid}\n{gid}\n{uid}:{gid}"
