"""Mounts of a container: which, in which order, and what is refused."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cotenant_local.runtime.containers import mount_spec
from cotenant_local.runtime.containers.images import Image
from cotenant_local.runtime.interface.unsupported import UnsupportedError
from local.tests.runtime.cri_messages import Message

READ_ONLY = {"readonly": True, "recursive_readonly": True}


def at(*targets: str) -> list[dict[str, Any]]:
    return [{"target": target} for target in targets]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A root with a folder `lib`, a link to it, and no `lib32`; nothing of the machine's own /etc."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib64").symlink_to("lib")
    root = str(tmp_path)
    monkeypatch.setattr(mount_spec, "TOP", tuple(f"{root[1:]}/{name}" for name in ("lib", "lib64", "lib32")))
    monkeypatch.setattr(mount_spec, "ETC", ())
    return root


def test_an_image_binds_the_machines_folders_with_a_layer_and_its_own_paths_without(machine: str) -> None:
    lib = f"{machine}/lib"
    assert mount_spec.image_binds(Image("x", paths=("/opt/x",))) == [
        {"source": "/usr", "target": "/usr", **READ_ONLY, "layered": True},
        {"source": lib, "target": lib, **READ_ONLY, "layered": True},
        {"source": "/opt/x", "target": "/opt/x", **READ_ONLY},
    ]


def test_links_of_the_machine_stay_links(machine: str) -> None:
    assert mount_spec.host_links() == {f"{machine}/lib64": "lib"}


@pytest.mark.usefixtures("cri_numbers")
def test_mounts_of_the_pod_are_named_by_real_source_and_clean_target(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    asked = [
        Message(
            host_path=f"{tmp_path}/link",
            container_path="data//x/",
            readonly=True,
            recursive_read_only=True,
            propagation=0,
        ),
        Message(
            host_path=str(tmp_path), container_path="/a/../b", readonly=False, recursive_read_only=False, propagation=2
        ),
    ]
    source = str(tmp_path)
    assert mount_spec.mounts(asked) == [
        {"source": source, "target": "/data/x", **READ_ONLY, "propagation": "private"},
        {"source": source, "target": "/b", "readonly": False, "recursive_readonly": False, "propagation": "shared"},
    ]


@pytest.mark.parametrize(
    ("image", "mounts", "order"),
    [
        (("/usr", "/opt/x"), ("/data",), ("/usr", "/opt/x", "/data")),
        (("/usr", "/tmp/checkout"), ("/tmp",), ("/usr", "/tmp", "/tmp/checkout")),
        (("/usr", "/tmpx"), ("/tmp/",), ("/usr", "/tmpx", "/tmp/")),
        (("/usr",), (), ("/usr",)),
    ],
)
def test_no_mount_of_the_pod_hides_a_folder_of_the_image_below_it(
    image: tuple[str, ...], mounts: tuple[str, ...], order: tuple[str, ...]
) -> None:
    assert mount_spec.layered(at(*image), at(*mounts)) == at(*order)


def test_parents_are_mounted_before_their_children() -> None:
    assert mount_spec.in_order(at("/a/b/c", "/z/", "/a/b", "/a")) == at("/z/", "/a", "/a/b", "/a/b/c")


def test_a_device_is_given_where_the_pod_wants_it() -> None:
    asked = [SimpleNamespace(host_path="/dev/null", container_path="/dev/a", permissions="rwm")]
    assert mount_spec.devices(asked) == [{"source": "/dev/null", "target": "/dev/a"}]


@pytest.mark.parametrize(
    ("path", "permissions", "message"),
    [
        ("/dev/absent", "rw", "device /dev/absent is not on this node"),
        ("/dev/null", "r", "device /dev/null: access 'r' is not provided, only rw"),
        ("/dev/null", "wm", "device /dev/null: access 'wm' is not provided, only rw"),
    ],
)
def test_a_device_that_cannot_be_given_as_asked_is_refused(path: str, permissions: str, message: str) -> None:
    asked = SimpleNamespace(host_path=path, container_path="/dev/a", permissions=permissions)
    with pytest.raises(UnsupportedError) as refusal:
        mount_spec.devices([asked])
    assert str(refusal.value) == message
