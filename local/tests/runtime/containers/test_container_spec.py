"""The document that a container's shim reads: what becomes of namespaces, paths, cgroups and notes."""

from typing import Any

import pytest

from cotenant_local.runtime.containers import container_spec, mount_spec
from cotenant_local.runtime.containers.container_environment import ContainerEnvironment
from cotenant_local.runtime.containers.images import Image
from cotenant_local.runtime.interface import unsupported
from cotenant_local.runtime.isolation.id_map import IdMap
from local.tests.runtime.cri_messages import Message

pytestmark = pytest.mark.usefixtures("cri_numbers")
ENVIRONMENT = ContainerEnvironment(
    folder="/state/c",
    ids=IdMap(((0, 1 << 32),), ((0, 1 << 32),), may_set_groups=True),
    sandbox_pid=7,
    private_namespaces=("uts", "net"),
    hostname="web-0",
    address="10.244.1.2",
    resolv_conf="",
    shm="/state/shm",
    pid_namespace="new",
    log_directory="/var/log/pods/web",
)


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with /usr alone; what a container is refused for is tested in `field_support`'s tests."""
    monkeypatch.setattr(mount_spec, "TOP", ())
    monkeypatch.setattr(mount_spec, "ETC", ())
    monkeypatch.setattr(unsupported, "reject_container", lambda _: None)


def built(**security: Any) -> dict[str, Any]:
    resources = Message(
        oom_score_adj=0,
        cpu_quota=security.pop("cpu_quota", 0),
        cpu_shares=0,
        memory_limit_in_bytes=0,
        memory_swap_limit_in_bytes=0,
        hugepage_limits=[],
        unified={},
        cpuset_cpus="",
        cpuset_mems="",
    )
    linux = Message(security_context=Message(**security), resources=resources)
    config = Message(linux=linux, command=["run"], log_path="main/0.log", tty=False, stdin=True, stdin_once=True)
    return container_spec.build(config, Image("x"), ENVIRONMENT)


def test_namespaces_are_the_pods_where_it_has_its_own_and_the_nodes_elsewhere() -> None:
    assert built()["namespaces"] == {"net": "/proc/7/ns/net", "uts": "/proc/7/ns/uts", "ipc": "", "pid": "new"}


def test_the_rest_of_the_document_is_facts_of_the_pod_and_what_the_container_asks_for() -> None:
    document = built(masked_paths=["/proc/kcore"], readonly_paths=["/proc/sys"], readonly_rootfs=True, privileged=False)
    elsewhere = ("process", "files", "folders", "namespaces", "binds")  # tests of `process_spec` and `mount_spec`
    assert {key: value for key, value in document.items() if key not in elsewhere} == {
        "folder": "/state/c",
        "root": "/state/c/root",
        "readonly_root": True,
        "privileged": False,
        "devices": [],
        "shm": "/state/shm",
        "links": {"/etc/mtab": "/proc/self/mounts", "/var/run": "/run", "/var/lock": "/run/lock"},
        "masked_paths": ["/proc/kcore"],
        "readonly_paths": ["/proc/sys"],
        "tty": False,
        "stdin": True,
        "stdin_once": True,
        "log_path": "/var/log/pods/web/main/0.log",
        "cgroup_files": [],
        "oom_file": "",
        "cgroup_folder": False,
        "notes": [],
    }


def test_a_privileged_container_sees_every_path() -> None:
    document = built(masked_paths=["/proc/kcore"], readonly_paths=["/proc/sys"], privileged=True)
    assert (document["masked_paths"], document["readonly_paths"]) == ([], [])


def test_what_is_not_enforced_is_noted() -> None:
    assert built(apparmor=Message(profile_type=0))["notes"] == [
        "AppArmor profile RuntimeDefault is not applied: AppArmor is not provided"
    ]
    (note,) = built(cpu_quota=1000)["notes"]
    assert "not enforced" in note
