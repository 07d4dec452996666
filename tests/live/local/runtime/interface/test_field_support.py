"""No field of the interface is ignored silently: each is set in turn, and something comes of it, or a refusal, or there
is a reason why it does not matter. The fields come from the interface's own description: a new one fails here first."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cotenant_local.programs import build
from cotenant_local.runtime.containers import containers, disk_records, host_ports, images, sandboxes
from cotenant_local.runtime.cri import messages
from cotenant_local.runtime.interface import config, field_support, proto
from cotenant_local.runtime.interface.unsupported import UnsupportedError
from cotenant_local.runtime.isolation import cdi, cgroup_settings, id_map
from cotenant_local.runtime.shim.zygote_client import ZygoteClient

pytestmark = pytest.mark.sandbox
TOOLS = "ghcr.io/cotenant/tools"
REFUSALS = (UnsupportedError, cgroup_settings.LimitError, cdi.CdiError, KeyError)
OTHER: dict[str, Any] = {
    "image.image": f"{TOOLS}:other",
    "log_path": "other.log",
    "mounts.host_path": "/etc",
    "mounts.propagation": 2,
    "devices.host_path": "/dev/zero",
    "devices.permissions": "r",
    "linux.security_context.capabilities.add_capabilities": "NET_ADMIN",
    "linux.security_context.capabilities.drop_capabilities": "KILL",
    "linux.security_context.seccomp.profile_type": 1,
    "linux.security_context.apparmor.profile_type": 2,
    "linux.security_context.apparmor_profile": "localhost/x",
    "linux.security_context.seccomp_profile_path": "localhost/x",
    "linux.security_context.namespace_options.network": 2,
    "linux.security_context.namespace_options.pid": 2,
    "linux.security_context.namespace_options.ipc": 2,
    "linux.security_context.namespace_options.userns_options.mode": 1,
    "linux.resources.unified": ("memory.high", "9"),
    "linux.sysctls": ("net.ipv4.ip_forward", "1"),
    "port_mappings.host_ip": "10.0.0.9",
}
"""Values that mean something where any other value would not."""


def without_a_number(wanted: Any) -> None:
    wanted.linux.security_context.ClearField("run_as_user")


def with_a_target(wanted: Any) -> None:
    wanted.linux.security_context.namespace_options.pid = proto.pb.TARGET


def with_a_profile_of_the_node(wanted: Any) -> None:
    wanted.linux.security_context.seccomp.profile_type = proto.pb.SecurityProfile.Localhost


def as_it_is(wanted: Any) -> None:
    """The field needs no other one, as most fields."""


PREPARED: dict[str, Callable[[Any], None]] = {
    "linux.security_context.run_as_username": without_a_number,
    "linux.security_context.namespace_options.target_id": with_a_target,
    "linux.security_context.seccomp.localhost_ref": with_a_profile_of_the_node,
}
"""What else is set where a field means nothing by itself."""


@pytest.fixture(scope="module", autouse=True)
def messages_of_the_interface() -> None:
    proto.load(build.stubs_path())


@pytest.fixture(autouse=True)
def same_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_records, "new_id", lambda: "0" * 24)
    monkeypatch.setattr(time, "time_ns", lambda: 1)
    everything = id_map.IdMap(uids=((0, 1 << 32),), gids=((0, 1 << 32),), may_set_groups=True)
    monkeypatch.setattr(id_map.IdMap, "here", lambda: everything)


def leaves(description: Any, above: str = "") -> Iterator[tuple[str, list[Any]]]:
    """Every field that holds a value, with the fields that lead to it."""
    for field in description.fields:
        path = above + field.name
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            yield path, [field]
            continue
        for below, way in leaves(field.message_type, path + "."):
            yield below, [field, *way]


def changed(message: Any, path: str, way: list[Any]) -> Any:
    """A copy in which this field, and no other, has another value."""
    message = type(message).FromString(message.SerializeToString())
    holder = message
    for step in way[:-1]:
        inner = getattr(holder, step.name)
        if step.is_repeated:
            holder = inner[0] if inner else inner.add()
        else:
            inner.SetInParent()
            holder = inner
    last = way[-1]
    old = getattr(holder, last.name)
    if last.message_type is not None:
        key, value = OTHER.get(path, ("key", "other"))
        old[key] = value
    elif last.is_repeated:
        old.append(OTHER.get(path, 77 if last.type != last.TYPE_STRING else "other"))
    else:
        setattr(holder, last.name, OTHER.get(path, another(old)))
    return message


def another(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case bytes():
            return value + b"x"
        case _:
            return value + "x"


def pod() -> Any:
    pb = proto.pb
    return pb.PodSandboxConfig(
        metadata=pb.PodSandboxMetadata(name="pod", uid="1", namespace="default"),
        hostname="pod",
        log_directory="/logs",
        dns_config=pb.DNSConfig(servers=["10.0.0.1"]),
        port_mappings=[pb.PortMapping(container_port=80, host_port=8080)],
    )


def container() -> Any:
    pb = proto.pb
    wanted = pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name="main"),
        image=pb.ImageSpec(image=TOOLS),
        command=["true"],
        working_dir="/tmp",
        envs=[pb.KeyValue(key="A", value=b"1")],
        mounts=[pb.Mount(container_path="/data", host_path="/usr")],
        devices=[pb.Device(container_path="/dev/a", host_path="/dev/null", permissions="rw")],
        log_path="main.log",
        stop_signal=pb.SIGINT,
    )
    security = wanted.linux.security_context
    security.namespace_options.pid = pb.CONTAINER
    security.run_as_user.value = 1000
    security.seccomp.profile_type = pb.SecurityProfile.RuntimeDefault
    resources = wanted.linux.resources
    resources.cpu_quota, resources.cpu_period, resources.memory_limit_in_bytes = 1000, 1000, 1 << 20
    resources.hugepage_limits.add(page_size="2MB", limit=1 << 21)
    return wanted


def sandbox(wanted: Any, folder: Path) -> sandboxes.Sandbox:
    return sandboxes.Sandbox("pod", folder / "sandbox", wanted, 1, wanted.hostname, "", address="10.0.0.2")


def of_pod(wanted: Any, folder: Path) -> object:
    """What becomes of a pod's configuration: everything that is asked, written or told because of it."""
    sandboxes.reject_unsupported(wanted)
    made = sandbox(wanted, folder)
    host_ports.check(made, [])
    told = messages.sandbox_status(made)
    told.linux.Clear()
    place = (made.config.log_directory, made.shm if "ipc" in made.private_namespaces else None)
    return made.request(), made.resolv_conf(), host_ports.rules([made]), place, str(told)


def of_container(wanted: Any, folder: Path) -> object:
    """What becomes of a container's configuration. What is only told back to the kubelet does not count."""
    settings = config.RuntimeConfig("n", folder / "s", folder / "state", "10.0.0.0/24", "10.1.0.1", folder / "i.json")
    settings.catalogue.write_text(json.dumps(images.default_catalogue(folder)))
    image = images.load(settings.catalogue).find(wanted.image.image)
    if image is None:
        raise KeyError(wanted.image.image)
    try:
        made = containers.Containers(settings, ZygoteClient()).create(wanted, sandbox(pod(), folder), image)
        document = json.loads((made.folder / "spec.json").read_text())
    finally:
        shutil.rmtree(settings.state_dir, ignore_errors=True)
    told = messages.container_status(made)
    for echoed in ("mounts", "resources", "user"):
        told.ClearField(echoed)
    for echoed in ("annotations", "runtime_handler"):
        told.image.ClearField(echoed)
    return document, str(told), limits_of(wanted, unified=True), limits_of(wanted, unified=False)


def limits_of(wanted: Any, *, unified: bool) -> object:
    try:
        return cgroup_settings.settings(wanted.linux.resources, unified=unified)
    except cgroup_settings.LimitError as refusal:
        return str(refusal)


@pytest.mark.parametrize("kind", ["pod", "container"])
def test_every_field_is_applied_or_refused_or_has_a_reason_why_it_does_not_matter(kind: str, tmp_path: Path) -> None:
    base, outcome, meaning, name = {
        "pod": (pod, of_pod, field_support.POD, "PodSandboxConfig"),
        "container": (container, of_container, field_support.CONTAINER, "ContainerConfig"),
    }[kind]
    ignored, lively = [], []
    for path, way in leaves(proto.pb.DESCRIPTOR.message_types_by_name[name]):
        wanted, reason = base(), field_support.support_of(path, meaning)
        if kind == "container":
            PREPARED.get(path, as_it_is)(wanted)
        try:
            same = outcome(changed(wanted, path, way), tmp_path) == outcome(wanted, tmp_path)
        except REFUSALS:
            continue
        if same and not reason:
            ignored.append(path)
        if reason and not same:
            lively.append(path)
    assert (ignored, lively) == ([], [])


def test_what_has_no_meaning_here_is_refused_by_its_name(tmp_path: Path) -> None:
    wanted = container()
    wanted.windows.security_context.host_process = True
    with pytest.raises(UnsupportedError, match=r"windows\.security_context\.host_process is not provided"):
        of_container(wanted, tmp_path)


def test_tables_name_only_fields_that_there_are() -> None:
    for name, meaning in (("PodSandboxConfig", field_support.POD), ("ContainerConfig", field_support.CONTAINER)):
        known = [path + "." for path, _ in leaves(proto.pb.DESCRIPTOR.message_types_by_name[name])]
        assert [path for path in meaning if not any(one.startswith(path + ".") for one in known)] == []
