"""The process of a container: whose words its command is made of, whose user it is, what its files of /etc name."""

from typing import Any

import pytest

from cotenant_local.runtime.containers import process_spec
from cotenant_local.runtime.containers.container_environment import ContainerEnvironment
from cotenant_local.runtime.containers.images import PATH, Image
from cotenant_local.runtime.interface.unsupported import UnsupportedError
from cotenant_local.runtime.isolation.cdi import ContainerEdits
from cotenant_local.runtime.isolation.id_map import IdMap
from local.tests.runtime.cri_messages import Message

pytestmark = pytest.mark.usefixtures("cri_numbers")
ROOT = IdMap(((0, 1 << 32),), ((0, 1 << 32),), may_set_groups=True)
ONE = IdMap(((0, 1),), ((0, 1),), may_set_groups=False)
IMAGE = Image("x", entrypoint=("start",), args=("-a",), workdir="/work", uid=65532, gid=65532)


def environment(ids: IdMap = ROOT, **devices: Any) -> ContainerEnvironment:
    return ContainerEnvironment(
        folder="/f",
        ids=ids,
        sandbox_pid=1,
        private_namespaces=(),
        hostname="web-0",
        address="10.244.1.2",
        resolv_conf="nameserver 10.96.0.10\n",
        shm="",
        pid_namespace="new",
        log_directory="",
        devices=ContainerEdits(**devices),
    )


def config(security: Message | None = None, **fields: Any) -> Message:
    linux = Message(security_context=security or Message(), resources=Message(oom_score_adj=5))
    return Message(linux=linux, **fields)


def number(value: int) -> Message:
    return Message(value=value)


def test_a_container_that_asks_for_nothing_is_what_its_image_says() -> None:
    made, notes = process_spec.build(config(security=Message(no_new_privs=True)), IMAGE, environment())
    kept = made.pop("capabilities")
    assert (0 in kept, 21 in kept) == (True, False)  # CHOWN is in the default set, SYS_ADMIN is not
    assert (made, notes) == (
        {
            "args": ["start", "-a"],
            "env": {"PATH": PATH, "HOSTNAME": "web-0", "HOME": "/home/nonroot"},
            "cwd": "/work",
            "uid": 65532,
            "gid": 65532,
            "groups": [65532],
            "map_user": False,
            "may_set_groups": True,
            "no_new_privs": True,
            "seccomp": False,
            "rlimits": {},
            "oom_score_adj": 5,
        },
        [],
    )


@pytest.mark.parametrize(
    ("fields", "args"),
    [
        ({"command": ["run"]}, ["run"]),
        ({"args": ["-b"]}, ["start", "-b"]),
        ({"command": ["run"], "args": ["-b"]}, ["run", "-b"]),
    ],
)
def test_a_command_drops_the_images_arguments_too(fields: dict[str, Any], args: list[str]) -> None:
    assert process_spec.build(config(**fields), IMAGE, environment())[0]["args"] == args


@pytest.mark.parametrize(
    ("security", "user"),
    [
        (Message(run_as_user=number(1234)), (1234, 0)),
        (Message(run_as_user=number(65534)), (65534, 65534)),
        (Message(run_as_user=number(0)), (0, 0)),
        (Message(run_as_user=number(7), run_as_group=number(8)), (7, 8)),
        (Message(run_as_username="nobody"), (65534, 65534)),
    ],
)
def test_the_user_is_the_one_that_was_asked_for(security: Message, user: tuple[int, int]) -> None:
    made, _ = process_spec.build(config(security), IMAGE, environment())
    assert (made["uid"], made["gid"]) == user


@pytest.mark.parametrize(
    ("security", "image", "message"),
    [
        (Message(), Image("bare"), "no command: image bare has none of its own, name one in the pod"),
        (
            Message(run_as_username="eve"),
            IMAGE,
            "user 'eve' is not in the image; known: ['nobody', 'nonroot', 'root']",
        ),
        (
            Message(run_as_group=number(8)),
            IMAGE,
            "runAsGroup without runAsUser: whose group that would be is not said",
        ),
        (
            Message(capabilities=Message(add_capabilities=["NO_SUCH"])),
            IMAGE,
            "unknown capabilities NO_SUCH",
        ),
    ],
)
def test_a_process_that_cannot_be_is_refused(security: Message, image: Image, message: str) -> None:
    with pytest.raises(UnsupportedError) as refusal:
        process_spec.build(config(security), image, environment())
    assert str(refusal.value) == message


def test_a_user_that_the_node_has_no_id_for_is_mapped_and_groups_that_cannot_be_shown_are_noted() -> None:
    security = Message(run_as_user=number(1234), run_as_group=number(77), supplemental_groups=[5])
    made, notes = process_spec.build(config(security), IMAGE, environment(ONE))
    assert (made["map_user"], made["groups"], made["env"]["TAR_OPTIONS"]) == (True, [], "--no-same-owner")
    assert notes == ["groups [5] are not shown: the cluster runs as an ordinary user, who owns every volume"]


def test_the_pods_variables_win_over_the_images_and_a_devices_win_over_both() -> None:
    variables = [Message(key="A", value=b"pod"), Message(key="B", value=b"pod"), Message(key="C", value=b"\xff")]
    image = Image("x", entrypoint=("start",), env=(("A", "image"), ("HOME", "/h")))
    made, _ = process_spec.build(config(envs=variables, tty=True), image, environment(env={"B": "device"}))
    assert made["env"] == {
        "PATH": PATH,
        "HOSTNAME": "web-0",
        "HOME": "/h",
        "TERM": "xterm",
        "A": "pod",
        "B": "device",
        "C": "\udcff",
    }


@pytest.mark.parametrize(
    ("security", "confined"),
    [
        (Message(seccomp=Message(profile_type=0)), True),
        (Message(seccomp=Message(profile_type=1)), False),
        (Message(seccomp_profile_path="runtime/default"), True),
        (Message(seccomp=Message(profile_type=1), seccomp_profile_path="runtime/default"), False),
        (Message(seccomp=Message(profile_type=0), privileged=True), False),
    ],
)
def test_system_calls_are_filtered_where_the_default_profile_is_asked_for(security: Message, confined: bool) -> None:
    assert process_spec.build(config(security), IMAGE, environment())[0]["seccomp"] is confined


def test_files_of_etc_name_the_user_its_groups_and_the_pod() -> None:
    files = process_spec.account_files({"uid": 1234, "gid": 77, "groups": [5, 90]}, environment())
    assert files == {
        "/etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/sh\n"
        "nonroot:x:65532:65532:nonroot:/home/nonroot:/bin/sh\nuser1234:x:1234:77::/home/nonroot:/bin/sh\n",
        "/etc/group": "root:x:0:\nnogroup:x:65534:\nnonroot:x:65532:\ntty:x:5:\ngroup77:x:77:\ngroup90:x:90:\n",
        "/etc/hostname": "web-0\n",
        "/etc/hosts": "127.0.0.1\tlocalhost\n::1\tlocalhost\n10.244.1.2\tweb-0\n",
        "/etc/resolv.conf": "nameserver 10.96.0.10\n",
    }
