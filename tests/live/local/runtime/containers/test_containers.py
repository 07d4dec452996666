"""Containers: user, root, mounts, limits, signals, logs, exits. As root and as an ordinary user."""

import os
import re
import signal
from pathlib import Path
from typing import Any

import grpc
import pytest

from cotenant_local.runtime.interface import proto
from tests.live.local.runtime.sandbox import Kubelet, wait_for

pytestmark = pytest.mark.sandbox


def value(number: int) -> Any:
    return proto.pb.Int64Value(value=number)


def restricted() -> dict[str, Any]:
    """The security context that the restricted Pod Security profile asks for."""
    return {
        "run_as_user": value(65532),
        "no_new_privs": True,
        "readonly_rootfs": True,
        "capabilities": proto.pb.Capability(drop_capabilities=["ALL"]),
        "seccomp": proto.pb.SecurityProfile(profile_type=proto.pb.SecurityProfile.RuntimeDefault),
    }


def test_a_container_says_its_exit_code_and_its_log_has_both_streams(node: Kubelet) -> None:
    pod = node.pod("exit")
    container = node.start(pod, "/bin/sh", "-c", "echo out; echo err >&2; printf unfinished; exit 3")
    status = node.finish(container)
    lines = sorted(line.split(" ", 1)[1] for line in node.log(container))
    assert (status.exit_code, status.reason) == (3, "Error")
    assert lines == ["stderr F err", "stdout F out", "stdout F unfinished"]
    assert status.created_at < status.started_at < status.finished_at


@pytest.mark.parametrize(("uid", "gid"), [(0, 0), (65532, 65532), (1234, 77)])
def test_the_program_sees_itself_as_the_user_it_was_asked_to_be(node: Kubelet, uid: int, gid: int) -> None:
    security = {"run_as_user": value(uid), "run_as_group": value(gid)}
    script = "id -u; id -g; touch /tmp/mine; stat -c %u:%g /tmp/mine; getent passwd $(id -u) > /dev/null && echo named"
    wanted = f"{uid}\n{gid}\n{uid}:{gid}\nnamed"
    assert node.output(node.pod(f"user{uid}"), script, security=security) == wanted


def test_the_restricted_profile_leaves_no_rights(node: Kubelet) -> None:
    script = "grep -E 'CapEff|CapBnd|NoNewPrivs|Seccomp:' /proc/self/status; touch /x; unshare -U true; echo end"
    said = node.output(node.pod("restricted"), script, security=restricted())
    fields = dict(re.findall(r"(\w+):\s+(\w+)", said))
    assert fields["CapEff"] == fields["CapBnd"] == "0" * 16
    assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")
    assert "touch: cannot touch '/x': Read-only file system" in said
    assert "unshare: unshare failed: Operation not permitted" in said


def test_capabilities_are_added_and_dropped_by_name(node: Kubelet) -> None:
    capability = proto.pb.Capability(add_capabilities=["NET_ADMIN"], drop_capabilities=["ALL"])
    said = node.output(node.pod("caps"), "grep CapEff /proc/self/status", security={"capabilities": capability})
    assert int(said.split()[1], 16) == 1 << 12
    unknown = proto.pb.Capability(add_capabilities=["FLY"])
    with pytest.raises(grpc.RpcError, match="unknown capabilities FLY"):
        node.create(node.pod("fly"), "true", security={"capabilities": unknown})


def test_the_root_is_the_containers_own_and_the_machine_does_not_see_what_is_written(node: Kubelet) -> None:
    pod = node.pod("root")
    assert (
        node.output(pod, "echo mine > /file; echo mine > /usr/file; cat /usr/file; ls -A / | grep -c '^[.]'; true")
        == "mine\n0"
    )
    assert node.output(pod, "ls /file /usr/file 2>&1 | grep -c 'No such'; ls /dev | tr '\\n' ' '").startswith(
        "2\nfd full mqueue null"
    )
    assert not Path("/usr/file").exists()


def test_programs_are_installed_below_usr_whoever_the_machines_root_is_in_here(node: Kubelet) -> None:
    pod = node.pod("installs")
    made = ("/usr/local/bin/x", "/usr/local/share/new/x", "/usr/share/new/x", "/usr/share/doc/x")
    script = "; ".join(f"mkdir -p $(dirname {path}); echo '#!/bin/sh' > {path}" for path in made)
    said = node.output(pod, f"{script}; chmod +x /usr/local/bin/x; x && cat /usr/share/doc/x; ls /usr/share | wc -l")
    assert said.splitlines()[0] == "#!/bin/sh"
    assert int(said.splitlines()[1]) == 1 + len(list(Path("/usr/share").iterdir()))
    assert not any(Path(path).exists() for path in made)


def test_volumes_are_mounted_where_the_image_has_no_folder_for_them(node: Kubelet) -> None:
    shared = node.shared("below")
    (shared / "index.html").write_text("hello\n")
    mount = proto.pb.Mount
    mounts = [
        mount(container_path="/usr/share/nginx/html", host_path=str(shared)),
        mount(container_path="/usr/local/etc/app/index", host_path=str(shared / "index.html"), readonly=True),
    ]
    script = "cat /usr/share/nginx/html/index.html /usr/local/etc/app/index; test -d /usr/share/doc -a -x /usr/bin/env"
    readonly: dict[str, Any] = {"run_as_user": value(65532), "readonly_rootfs": True}
    for security in ({}, readonly):
        assert node.output(node.pod("below"), script, mounts=mounts, security=security) == "hello\nhello"
    said = node.output(node.pod("below"), "touch /usr/x 2>&1 | grep -c Read-only", security={"readonly_rootfs": True})
    assert said == "1"
    assert not Path("/usr/share/nginx/html/index.html").exists()


def test_paths_of_the_kernel_are_hidden_and_read_only_as_asked(node: Kubelet) -> None:
    security = {"masked_paths": ["/proc/timer_list", "/proc/tty", "/nothing"], "readonly_paths": ["/proc/sys"]}
    script = (
        "wc -c < /proc/timer_list; ls /proc/tty | wc -l; (echo 1 > /proc/sys/kernel/printk) 2>&1 | grep -o 'Read-.*'"
    )
    assert node.output(node.pod("masked"), script, security=security) == "0\n0\nRead-only file system"


def test_every_mount_is_there_with_its_mode(node: Kubelet) -> None:
    shared = node.shared("mounts")
    (shared / "file").write_text("one\n")
    (shared / "inner").mkdir(exist_ok=True)
    (shared / "inner" / "deep").write_text("two\n")
    mount = proto.pb.Mount
    mounts = [
        mount(container_path="/a/b/nested", host_path=str(shared / "inner"), readonly=True),
        mount(container_path="/a/b", host_path=str(shared)),
        mount(container_path="/etc/hosts", host_path=str(shared / "file")),
        mount(container_path="/var/run/secret", host_path=str(shared / "inner"), readonly=True),
    ]
    script = "cat /etc/hosts /a/b/nested/deep /run/secret/deep; echo three > /a/b/new; "
    script += "(echo x > /a/b/nested/x) 2>/dev/null || echo refused"
    security = {"run_as_user": value(65532)}
    said = node.output(node.pod("mounts"), script, mounts=mounts, security=security)
    assert said.splitlines() == ["one", "two", "two", "refused"]
    assert (shared / "new").read_text() == "three\n"


def test_a_mount_of_something_missing_is_said_in_the_containers_status(node: Kubelet) -> None:
    pod = node.pod("missing")
    mounts = [proto.pb.Mount(container_path="/x", host_path="/no/such")]
    container = node.create(pod, "true", mounts=mounts)
    with pytest.raises(grpc.RpcError, match="mount /x: /no/such: No such file or directory"):
        node.runtime.StartContainer(proto.pb.StartContainerRequest(container_id=container))
    status = node.status(container)
    assert (status.exit_code, status.reason) == (128, "StartError")
    assert status.message == "mount /x: /no/such: No such file or directory"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("no-such", r'exec: "no-such": executable file not found in \$PATH'),
        ("/no/such", 'exec: "/no/such": no such file or directory'),
        ("/etc/passwd", 'exec: "/etc/passwd": permission denied'),
    ],
)
def test_a_program_that_cannot_run_is_named(node: Kubelet, command: str, message: str) -> None:
    with pytest.raises(grpc.RpcError, match=message):
        node.start(node.pod("cannot"), command)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"seccomp": {"profile_type": 2, "localhost_ref": "own.json"}}, "only RuntimeDefault and Unconfined"),
        ({"apparmor": {"profile_type": 2, "localhost_ref": "own"}}, "AppArmor is not provided"),
        ({"selinux_options": {"level": "s0:c1,c2"}}, "SELinux is not provided"),
        ({"run_as_username": "mallory"}, "user 'mallory' is not in the image"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(node: Kubelet, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(grpc.RpcError, match=message) as caught:
        node.create(node.pod("refused"), "true", security=fields)
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_environment_and_working_directory_are_as_asked_bytes_and_all(node: Kubelet) -> None:
    envs = [proto.pb.KeyValue(key="RAW", value=b"\xff\xfe"), proto.pb.KeyValue(key="TEXT", value=b"a b")]
    script = 'pwd; printf %s "$RAW" | od -An -tx1; echo $TEXT $HOME'
    said = node.output(node.pod("env"), script, envs=envs, working_dir="/made/here")
    assert said.splitlines() == ["/made/here", " ff fe", "a b /root"]


def test_the_stop_signal_reaches_the_program_and_its_code_is_kept(node: Kubelet) -> None:
    pod = node.pod("stops")
    script = "trap 'echo bye; exit 7' USR1; echo ready; while :; do sleep 0.05; done"
    container = node.start(pod, "/bin/sh", "-c", script, stop_signal=proto.pb.SIGUSR1)
    wait_for(lambda: node.log(container), "the trap")
    node.stop(container, grace=30)
    assert node.status(container).exit_code == 7
    assert node.log(container)[-1].endswith("stdout F bye")


def test_a_program_that_ignores_its_signal_is_killed_after_the_grace_period(node: Kubelet) -> None:
    container = node.start(node.pod("stubborn"), "/bin/sh", "-c", "trap '' TERM; while :; do sleep 1; done")
    node.stop(container, grace=1)
    status = node.status(container)
    assert (status.exit_code, status.reason) == (137, "Error")


def test_commands_run_in_the_container_as_its_user_with_its_environment(node: Kubelet) -> None:
    pod = node.pod("exec")
    envs = [proto.pb.KeyValue(key="WORD", value=b"here")]
    container = node.start(pod, "sleep", "1000", envs=envs, security=restricted())
    answer = node.execute(container, "/bin/sh", "-c", "echo $WORD $(id -u); cat /proc/1/comm; echo no >&2; exit 9")
    assert (answer.stdout, answer.stderr, answer.exit_code) == (b"here 65532\nsleep\n", b"no\n", 9)
    with pytest.raises(grpc.RpcError, match="timed out after 1 s") as caught:
        node.execute(container, "sleep", "1000", timeout=1)
    assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    assert node.execute(container, "pgrep", "-c", "sleep").stdout == b"1\n"  # the late one is gone
    with pytest.raises(grpc.RpcError, match='exec: "absent": executable file not found'):
        node.execute(container, "absent")
    node.stop(container)
    with pytest.raises(grpc.RpcError, match="is not running"):
        node.execute(container, "true")


def test_a_log_goes_on_in_a_new_file_after_rotation(node: Kubelet) -> None:
    pod = node.pod("rotated")
    container = node.start(pod, "/bin/sh", "-c", "while read line; do echo $line; done", stdin=True)
    path = Path(node.status(container).log_path)
    wait_for(path.exists, "the log")
    path.rename(path.with_suffix(".old"))
    node.runtime.ReopenContainerLog(proto.pb.ReopenContainerLogRequest(container_id=container))
    assert path.exists()
    node.stop(container)


def test_containers_survive_a_restart_of_the_runtime(node: Kubelet) -> None:
    pod = node.pod("survivor")
    script = "trap 'exit 4' TERM; while :; do echo tick; sleep 0.05; done"
    container = node.start(pod, "/bin/sh", "-c", script)
    ended = node.start(pod, "/bin/sh", "-c", "exit 6", name="ended")
    node.finish(ended)
    address = node.address(pod)
    os.kill(node.runtime_process(), signal.SIGKILL)

    def answers() -> Any:
        try:
            return node.status(container)
        except grpc.RpcError:
            return None

    assert wait_for(answers, "the runtime to come back").state == proto.pb.CONTAINER_RUNNING
    assert node.status(ended).exit_code == 6
    assert node.address(pod) == address
    before = len(node.log(container))
    wait_for(lambda: len(node.log(container)) > before, "the log to go on")
    assert node.execute(container, "echo", "in").stdout == b"in\n"
    fresh = node.pod("after")
    assert node.address(fresh) != address
    node.stop(container, grace=30)
    assert node.status(container).exit_code == 4


def test_a_container_whose_shim_is_killed_dies_with_it(node: Kubelet) -> None:
    pod = node.pod("orphan", namespaces={"network": proto.pb.POD, "pid": proto.pb.CONTAINER})
    container = node.start(pod, "sleep", "4242")
    pid = next(int(p.name) for p in Path("/proc").iterdir() if is_command(p, b"sleep\x004242\x00"))
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    os.kill(int(fields[1]), signal.SIGKILL)
    status = node.finish(container)
    assert (status.exit_code, status.message) == (137, "the container's shim was killed, and the container with it")
    wait_for(lambda: not Path(f"/proc/{pid}").exists(), "the program to end")


def is_command(process: Path, command: bytes) -> bool:
    try:
        return process.name.isdigit() and (process / "cmdline").read_bytes() == command
    except OSError:
        return False


@pytest.mark.parametrize(
    ("asked", "refusal"),
    [
        ({"security": {"run_as_group": 7}}, "runAsGroup without runAsUser"),
        ({"mount": {"recursive_read_only": True}}, "mount /x: recursiveReadOnly needs readOnly and no propagation"),
        (
            {"mount": {"recursive_read_only": True, "readonly": True, "propagation": 2}},
            "mount /x: recursiveReadOnly needs readOnly and no propagation",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(node: Kubelet, asked: dict[str, Any], refusal: str) -> None:
    security = {name: value(number) for name, number in asked.get("security", {}).items()}
    mounts = [proto.pb.Mount(container_path="/x", host_path="/usr", **asked["mount"])] if "mount" in asked else []
    with pytest.raises(grpc.RpcError, match=refusal) as caught:
        node.create(node.pod("contradiction"), "true", security=security, mounts=mounts)
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_an_image_that_is_not_there_is_refused_with_what_is(node: Kubelet) -> None:
    pb = proto.pb
    refusal = r"image 'nginx:1\.27' is not on this machine.*ghcr\.io/cotenant/tools"
    with pytest.raises(grpc.RpcError, match=refusal) as caught:
        node.images.PullImage(pb.PullImageRequest(image=pb.ImageSpec(image="nginx:1.27")))
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND
    assert not node.images.ImageStatus(pb.ImageStatusRequest(image=pb.ImageSpec(image="nginx"))).HasField("image")
    ours = pb.ImageSpec(image="ghcr.io/cotenant/worker:v1")
    assert node.images.ImageStatus(pb.ImageStatusRequest(image=ours)).image.uid.value == 65532
    assert node.images.PullImage(pb.PullImageRequest(image=ours)).image_ref.startswith("sha256:")


def has_ended(pid: int) -> bool:
    """Gone, or waiting for its parent to notice."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_pods_start_again_after_the_zygote_was_killed(node: Kubelet) -> None:
    runtime = node.runtime_process()
    children = Path(f"/proc/{runtime}/task/{runtime}/children")

    def find() -> int:
        names = {Path(f"/proc/{child}/comm").read_text(): int(child) for child in children.read_text().split()}
        return names.get("cri-zygote\n", 0)

    zygote = wait_for(find, "the zygote to have its name")
    running = node.start(node.pod("before-zygote"), "sleep", "1000")
    os.kill(zygote, signal.SIGKILL)
    wait_for(lambda: has_ended(zygote), "the zygote to end")
    assert node.output(node.pod("after-zygote"), "echo here") == "here"
    assert node.execute(running, "echo", "still").stdout == b"still\n"
    node.stop(running)
