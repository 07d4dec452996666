"""What the runtime decides without touching the machine: files, names, limits, filters."""

import json
import re
import struct
from pathlib import Path

import pytest

from cotenant_local.runtime.containers import images
from cotenant_local.runtime.inside import logs, seccomp
from cotenant_local.runtime.interface import config
from cotenant_local.runtime.isolation import cdi, id_map, nvidia, pod_network
from cotenant_local.runtime.streaming import spdy

CONFIG = {
    "node": "n",
    "socket": "/run/x.sock",
    "state_dir": "/var/x",
    "pod_cidr": "10.0.0.0/24",
    "node_address": "10.1.0.1",
    "catalogue": "/x.json",
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"color": "red"}, "unknown fields ['color']"),
        ({"node": None}, "missing fields ['node']"),
        ({"pod_cidr": "10.0.0.0/99"}, "'10.0.0.0/99' does not appear to be an IPv4 or IPv6 network"),
        ({"node_address": "here"}, "'here' does not appear to be an IPv4 or IPv6 address"),
    ],
)
def test_a_configuration_that_cannot_be_used_names_the_field(
    tmp_path: Path, change: dict[str, str | None], message: str
) -> None:
    path = tmp_path / "cri.json"
    path.write_text(json.dumps({key: value for key, value in {**CONFIG, **change}.items() if value is not None}))
    with pytest.raises(config.ConfigError, match=re.escape(message)):
        config.load(path)


def test_a_configuration_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "cri.json"
    path.write_text(json.dumps(CONFIG))
    first = config.load(path)
    path.write_text(config.dump(first))
    assert config.load(path) == first


@pytest.mark.parametrize(
    ("reference", "repository"),
    [
        ("ghcr.io/cotenant/worker", "ghcr.io/cotenant/worker"),
        ("ghcr.io/cotenant/worker:v1", "ghcr.io/cotenant/worker"),
        ("ghcr.io/cotenant/worker@sha256:abc", "ghcr.io/cotenant/worker"),
        ("ghcr.io/cotenant/worker:v1@sha256:abc", "ghcr.io/cotenant/worker"),
        ("nginx", "nginx"),
        ("docker.io/library/nginx:1.27", "nginx"),
        ("index.docker.io/grafana/grafana", "grafana/grafana"),
        ("localhost:5000/worker", "localhost:5000/worker"),
        ("localhost:5000/worker:v1", "localhost:5000/worker"),
    ],
)
def test_tags_and_digests_do_not_matter_but_ports_do(reference: str, repository: str) -> None:
    assert images.repository(reference) == repository


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"colour": "red"}, "image x: unknown fields ['colour']"),
        ({"paths": "/usr"}, "image x: paths must be a list"),
        ({"paths": ["opt"]}, "image x: path 'opt' is not absolute"),
    ],
)
def test_a_catalogue_that_cannot_be_used_names_the_image(tmp_path: Path, entry: object, message: str) -> None:
    path = tmp_path / "images.yaml"
    path.write_text(json.dumps({"images": {"x": entry}}))
    with pytest.raises(images.CatalogueError, match=re.escape(message)):
        images.load(path)


def test_an_image_more_is_one_of_ours_with_folders_and_variables_added(tmp_path: Path) -> None:
    jax = {"like": "worker", "paths": ["/opt/jax"], "env": {"PYTHONPATH": "/opt/jax"}}
    made = images.default_catalogue(tmp_path, tmp_path, more={"example.com/jax": jax})["images"]
    ours = made["ghcr.io/cotenant/worker"]
    assert made["example.com/jax"] == {
        **ours,
        "paths": sorted([*ours["paths"], "/opt/jax"]),
        "env": {**ours["env"], "PYTHONPATH": "/opt/jax"},
    }


def test_an_image_keeps_its_id_until_its_entry_changes(tmp_path: Path) -> None:
    path = tmp_path / "images.yaml"
    path.write_text("images:\n  x: {env: {A: '1'}}\n  y:\n")
    first = images.load(path)
    assert first.find("x:v1") == first.find(first.images["x"].id) == images.load(path).find("x")
    path.write_text("images:\n  x: {env: {A: '2'}}\n")
    second = images.load(path).find("x")
    assert second is not None
    assert second.id != first.images["x"].id


def test_addresses_are_given_once_and_the_longest_unused_first() -> None:
    addresses = pod_network.PodAddressPool("10.0.0.0/29", ["10.0.0.2"])
    assert [addresses.allocate() for _ in range(3)] == ["10.0.0.1", "10.0.0.3", "10.0.0.4"]
    addresses.release("10.0.0.1")
    assert [addresses.allocate() for _ in range(3)] == ["10.0.0.5", "10.0.0.6", "10.0.0.1"]
    with pytest.raises(pod_network.PodNetworkError, match=re.escape("all 6 pod addresses of 10.0.0.0/29 are in use")):
        addresses.allocate()


def test_capabilities_are_the_default_set_less_dropped_plus_added() -> None:
    assert id_map.capabilities([], [], privileged=False) == sorted(id_map.NUMBERS[name] for name in id_map.DEFAULT)
    assert id_map.capabilities(["CAP_NET_ADMIN"], ["all"], privileged=False) == [12]
    assert len(id_map.capabilities([], [], privileged=True)) == len(id_map.CAPABILITIES)
    few = frozenset({"CHOWN"})
    assert id_map.capabilities(["ALL"], [], privileged=False, have=few) == [0]
    with pytest.raises(id_map.UnknownCapabilityError, match="does not have the capabilities SYS_TIME"):
        id_map.capabilities(["SYS_TIME"], [], privileged=False, have=few)


def write_spec(path: Path, kind: str, *names: str, **common: object) -> None:
    devices = [{"name": name, "containerEdits": {"env": [f"DEVICE={name}"]}} for name in names]
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"cdiVersion": "0.6.0", "kind": kind, "devices": devices, "containerEdits": common}))


def test_common_edits_apply_once_and_a_later_folder_wins(tmp_path: Path) -> None:
    write_spec(tmp_path / "etc" / "a.json", "x.com/gpu", "0", "1", env=["FROM=etc"], deviceNodes=[{"path": "/dev/c"}])
    got = cdi.edits(["x.com/gpu=0", "x.com/gpu=1"], [tmp_path / "etc", tmp_path / "none"])
    assert (got.env, got.devices) == ({"FROM": "etc", "DEVICE": "1"}, [{"source": "/dev/c", "target": "/dev/c"}])
    write_spec(tmp_path / "run" / "a.json", "x.com/gpu", "0", env=["FROM=run"])
    assert cdi.edits(["x.com/gpu=0"], [tmp_path / "etc", tmp_path / "run"]).env["FROM"] == "run"


@pytest.mark.parametrize(
    ("common", "message"),
    [
        ({"hooks": [{"path": "/bin/x", "args": ["x"]}]}, "hook /bin/x ['x'] cannot be run"),
        ({"netDevices": [{"name": "a"}]}, "netDevices is not provided"),
        ({"mounts": [{"hostPath": "a", "containerPath": "/b", "type": "tmpfs"}]}, "mount /b of type tmpfs"),
    ],
)
def test_edits_that_cannot_be_applied_are_refused(tmp_path: Path, common: dict[str, object], message: str) -> None:
    write_spec(tmp_path / "etc" / "a.json", "x.com/gpu", "0", **common)
    with pytest.raises(cdi.CdiError, match=re.escape(message)):
        cdi.edits(["x.com/gpu=0"], [tmp_path / "etc"])


def test_the_same_device_twice_in_one_folder_is_refused_and_broken_specs_are_left_out(tmp_path: Path) -> None:
    write_spec(tmp_path / "etc" / "a.json", "x.com/gpu", "0")
    (tmp_path / "etc" / "broken.json").write_text("{")
    assert cdi.edits(["x.com/gpu=0"], [tmp_path / "etc"]).env == {"DEVICE": "0"}
    write_spec(tmp_path / "etc" / "b.json", "x.com/gpu", "0")
    with pytest.raises(cdi.CdiError, match=re.escape("CDI devices x.com/gpu=0 are in two specs")):
        cdi.edits(["x.com/gpu=0"], [tmp_path / "etc"])


@pytest.mark.parametrize(
    ("asked", "want"),
    [
        (None, []),
        ("", []),
        ("void", []),
        ("none", []),
        ("GPU-b", ["nvidiactl", "nvidia0"]),
        ("GPU-a,GPU-b", ["nvidiactl", "nvidia1", "nvidia0"]),
        ("0", ["nvidiactl", "nvidia1"]),
        ("all", ["nvidiactl", "nvidia1", "nvidia0"]),
        ("GPU-simulated", []),
    ],
)
def test_a_gpu_pod_sees_the_device_nodes_of_its_gpus_and_no_others(
    tmp_path: Path, asked: str | None, want: list[str]
) -> None:
    for bus, uuid, minor in (("0000:01:00.0", "GPU-a", 1), ("0000:02:00.0", "GPU-b", 0)):
        (tmp_path / "gpus" / bus).mkdir(parents=True)
        information = f"Model: \t NVIDIA H200\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\n"
        (tmp_path / "gpus" / bus / "information").write_text(information)
    (tmp_path / "dev").mkdir()
    for name in ("nvidiactl", "nvidia0", "nvidia1"):
        (tmp_path / "dev" / name).touch()
    env = {} if asked is None else {"NVIDIA_VISIBLE_DEVICES": asked}
    got = nvidia.devices(env, tmp_path / "gpus", tmp_path / "dev")
    assert [device["target"] for device in got] == [f"/dev/{name}" for name in want]


def test_mig_devices_are_left_to_cdi() -> None:
    with pytest.raises(nvidia.GpuError, match="MIG-x: MIG devices are given by CDI only"):
        nvidia.nodes({"NVIDIA_VISIBLE_DEVICES": "GPU-a,MIG-x"}, [])


@pytest.mark.parametrize(
    ("written", "want"),
    [
        ([b"one\ntwo\n"], ["F one", "F two"]),
        ([b"par", b"tial\n"], ["F partial"]),
        ([b"no end"], ["F no end"]),
        ([b"\n"], ["F "]),
        ([b"x" * logs.LINE_LIMIT_BYTES + b"\n"], ["F " + "x" * logs.LINE_LIMIT_BYTES]),
        ([b"x" * (logs.LINE_LIMIT_BYTES + 1) + b"\n"], ["P " + "x" * logs.LINE_LIMIT_BYTES, "F x"]),
        ([b"x" * (logs.LINE_LIMIT_BYTES + 1)], ["P " + "x" * logs.LINE_LIMIT_BYTES, "F x"]),
    ],
)
def test_lines_are_logged_whole_or_in_parts(tmp_path: Path, written: list[bytes], want: list[str]) -> None:
    log = logs.LogFile(str(tmp_path / "log"))
    for data in written:
        log.write("stdout", data)
    log.finish()
    lines = (tmp_path / "log").read_text().splitlines()
    assert [line.split(" ", 2)[2] for line in lines] == want
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z stdout [FP] x*.*", line) for line in lines)


def run_filter(program: bytes, architecture: int, number: int, argument: int = 0) -> int:
    """The filter's answer, by the rules of the kernel's interpreter."""
    data, accumulator, at = {0: number, 4: architecture, 16: argument}, 0, 0
    while True:
        code, yes, no, value = struct.unpack_from("HBBI", program, at * 8)
        at += 1
        if code == seccomp.LOAD:
            accumulator = data[value]
        elif code == seccomp.RETURN:
            return int(value)
        else:
            tests = {seccomp.EQUAL: accumulator == value, seccomp.AT_LEAST: accumulator >= value}
            at += yes if tests.get(code, bool(accumulator & value)) else no


@pytest.mark.parametrize("machine", sorted(seccomp.MACHINES))
def test_the_filter_refuses_what_it_lists_and_allows_the_rest(machine: str) -> None:
    architecture, column, clone = seccomp.MACHINES[machine]
    program = seccomp.program(machine, [])
    refused, missing = seccomp.ERRNO | seccomp.EPERM, seccomp.ERRNO | seccomp.ENOSYS
    numbers = {row[column] for row in seccomp.CALLS.values() if row[column] is not None}
    answers = {number: run_filter(program, architecture, number) for number in range(460)}
    assert {number for number, answer in answers.items() if answer == refused} == numbers
    assert {number for number, answer in answers.items() if answer == missing} == {seccomp.CLONE3}
    assert run_filter(program, architecture, clone, 0x10000000) == refused  # a new user namespace
    assert run_filter(program, architecture, clone, 0x01200011) == seccomp.ALLOW  # fork
    assert run_filter(program, 0x40000003, 20) == refused  # a 32-bit program
    admin = seccomp.program(machine, [seccomp.SYS_ADMIN])
    assert run_filter(admin, architecture, seccomp.CALLS["mount"][column] or 0) == seccomp.ALLOW


def test_the_dictionary_is_the_one_of_the_specification() -> None:
    assert len(spdy.DICTIONARY) == 1423
    assert spdy.DICTIONARY.startswith(b"\0\0\0\x07options\0\0\0\x04head")
    assert spdy.DICTIONARY.endswith(b"charset=iso-8859-1,utf-,*,enq=0.")
