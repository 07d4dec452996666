"""What this runtime cannot do is refused by name, and nothing else is."""

from typing import Any

import pytest

from cotenant_local.runtime.interface.unsupported import UnsupportedError, reject_container, reject_user_namespace
from local.tests.runtime.cri_messages import Message

pytestmark = pytest.mark.usefixtures("cri_numbers")

LOCALHOST, RUNTIME_DEFAULT = 2, 0


def container(security: dict[str, Any] | None = None, *mounts: dict[str, Any]) -> Message:
    fields = {"namespace_options": Message(), "seccomp_profile_path": "", "apparmor_profile": "", **(security or {})}
    made = [
        Message(**{"container_path": "/data", "readonly": False, "propagation": 0, "uidMappings": (), **mount})
        for mount in mounts
    ]
    return Message(linux=Message(security_context=Message(**fields)), mounts=made)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        pytest.param(
            container({"seccomp": Message(profile_type=LOCALHOST, localhost_ref="strict.json")}),
            "seccomp profile 'strict.json': only RuntimeDefault and Unconfined are provided",
            id="a seccomp profile of the node's",
        ),
        pytest.param(
            container({"seccomp_profile_path": "localhost/old"}),
            "seccomp profile 'localhost/old': only RuntimeDefault and Unconfined are provided",
            id="as the field before was written",
        ),
        pytest.param(
            container({"apparmor": Message(profile_type=LOCALHOST, localhost_ref="tight")}),
            "AppArmor profile 'tight': AppArmor is not provided",
            id="AppArmor",
        ),
        pytest.param(
            container({"selinux_options": Message(user="", role="", type="", level="s0:c1")}),
            "seLinuxOptions: SELinux is not provided",
            id="one field of SELinux",
        ),
        pytest.param(
            container({"capabilities": Message(add_ambient_capabilities=["NET_RAW"])}),
            "ambient capabilities are not provided",
            id="ambient capabilities",
        ),
        pytest.param(
            container({"namespace_options": Message(userns_options=Message(mode=0))}),
            "hostUsers: false is not provided; pods share the cluster's user namespace",
            id="a user namespace",
        ),
        pytest.param(
            container(None, {"image": Message(image="data:v1")}),
            "mount /data: image volumes are not provided",
            id="an image volume",
        ),
        pytest.param(
            container(None, {"recursive_read_only": True}),
            "mount /data: recursiveReadOnly needs readOnly and no propagation",
            id="recursively read-only, and written",
        ),
        pytest.param(
            container(None, {"recursive_read_only": True, "readonly": True, "propagation": 1}),
            "mount /data: recursiveReadOnly needs readOnly and no propagation",
            id="recursively read-only, with propagation",
        ),
        pytest.param(
            container(None, {}, {"container_path": "/more", "gidMappings": [Message()]}),
            "mount /more: id-mapped mounts are not provided",
            id="the second mount",
        ),
    ],
)
def test_it_is_refused_in_the_words_that_the_pods_status_shows(config: Message, message: str) -> None:
    with pytest.raises(UnsupportedError) as refusal:
        reject_container(config)
    assert str(refusal.value) == message


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(container(), id="nothing special"),
        pytest.param(container({"seccomp": Message(profile_type=RUNTIME_DEFAULT)}), id="the runtime's seccomp"),
        pytest.param(container({"namespace_options": Message(userns_options=Message(mode=2))}), id="the node's users"),
        pytest.param(container(None, {"recursive_read_only": True, "readonly": True}), id="recursively read-only"),
    ],
)
def test_what_it_can_do_is_let_in(config: Message) -> None:
    reject_container(config)


def test_a_pod_that_says_nothing_of_users_has_the_nodes() -> None:
    reject_user_namespace(Message())
    with pytest.raises(UnsupportedError):
        reject_user_namespace(Message(userns_options=Message(mode=0)))
