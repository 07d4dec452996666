"""Pods: network, names, namespaces, and that nothing is left when they are gone. As root and as an ordinary user."""

from pathlib import Path
from typing import Any

import pytest

from cotenant_local.runtime.containers import sandboxes
from cotenant_local.runtime.containers.sandboxes import Sandbox, Sandboxes
from cotenant_local.runtime.interface import field_support, proto
from cotenant_local.runtime.interface.config import RuntimeConfig
from cotenant_local.runtime.interface.unsupported import UnsupportedError
from cotenant_local.runtime.shim.zygote_client import LaunchError
from local.tests.runtime.cri_messages import NUMBERS, Message


def wanted(*, network: int = 0, pid: int = 1, ipc: int = 0, sysctls: tuple[str, ...] = ()) -> Message:
    options = Message(network=network, pid=pid, ipc=ipc)
    linux = Message(security_context=Message(namespace_options=options), sysctls=dict.fromkeys(sysctls, "1"))
    return Message(linux=linux, hostname="web-0")


@pytest.mark.usefixtures("cri_numbers")
@pytest.mark.parametrize(
    ("config", "namespaces"),
    [
        (wanted(), ("uts", "net", "ipc")),
        (wanted(pid=0), ("uts", "net", "ipc", "pid")),
        (wanted(network=2), ("uts", "ipc")),
        (wanted(network=2, ipc=2, pid=2), ("uts",)),
    ],
)
def test_a_pod_has_the_namespaces_for_itself_that_it_does_not_share(
    config: Message, namespaces: tuple[str, ...]
) -> None:
    assert sandboxes.private_namespaces(config) == namespaces


@pytest.mark.parametrize(
    ("dns", "text"),
    [
        (Message(servers=["10.96.0.10"]), "nameserver 10.96.0.10\n"),
        (
            Message(servers=["1.1.1.1", "2.2.2.2"], searches=["a.svc", "svc"], options=["ndots:5"]),
            "nameserver 1.1.1.1\nnameserver 2.2.2.2\nsearch a.svc svc\noptions ndots:5\n",
        ),
    ],
)
def test_name_servers_are_those_that_the_pod_was_given(dns: Message, text: str, tmp_path: Path) -> None:
    assert Sandbox("s", tmp_path, Message(dns_config=dns), 1, "h", "").resolv_conf() == text


@pytest.mark.usefixtures("cri_numbers")
@pytest.mark.parametrize(
    ("sysctl", "network", "allowed"),
    [
        ("net.core.somaxconn", 0, True),
        ("net.core.somaxconn", 2, False),
        ("kernel.shm_rmid_forced", 2, True),
        ("kernel.pid_max", 0, False),
        ("vm.swappiness", 0, False),
    ],
)
def test_a_sysctl_is_refused_unless_it_is_the_pods_own(
    sysctl: str, network: int, allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(field_support, "reject_unknown", lambda *_: None)
    config = wanted(network=network, sysctls=(sysctl,))
    if allowed:
        sandboxes.reject_unsupported(config)
        return
    with pytest.raises(UnsupportedError, match=f"^sysctl {sysctl} is not a pod's own"):
        sandboxes.reject_unsupported(config)


class DeadZygote:
    async def call(self, request: object, fds: object) -> int:
        raise LaunchError("no more processes")


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandboxes:
    """A node without pods, on which none can be started."""
    monkeypatch.setattr(proto, "pb", NUMBERS)
    monkeypatch.setattr(field_support, "reject_unknown", lambda *_: None)
    config = RuntimeConfig("n", tmp_path / "s", tmp_path, "10.0.0.0/24", "10.1.0.1", tmp_path / "i.json")
    zygote: Any = DeadZygote()
    return Sandboxes(config, zygote)


@pytest.mark.usefixtures("cri_numbers")
async def test_a_pod_that_cannot_be_started_leaves_no_record(empty: Sandboxes) -> None:
    with pytest.raises(LaunchError, match="no more processes"):
        await empty.run(wanted(), "")
    assert (empty.all, list(empty.folder.iterdir())) == ({}, [])


@pytest.mark.usefixtures("cri_numbers")
async def test_a_runtime_class_that_is_not_known_is_refused_with_those_that_are(empty: Sandboxes) -> None:
    with pytest.raises(UnsupportedError, match=r"^runtime handler 'kata' is not known; known are cotenant, nvidia$"):
        await empty.run(wanted(), "kata")


@pytest.mark.usefixtures("cri_numbers")
def test_a_pod_is_found_by_its_id_or_by_a_beginning_that_no_other_has(empty: Sandboxes, tmp_path: Path) -> None:
    for name in ("aa", "ab", "abc"):
        empty.all[name] = Sandbox(name, tmp_path, None, 1, "h", "")
    found = {name: empty.find(name) for name in ("aa", "ab", "abc", "a", "", "b")}
    assert {name: pod and pod.id for name, pod in found.items()} == {
        "aa": "aa",
        "ab": "ab",
        "abc": "abc",
        "a": None,
        "": None,
        "b": None,
    }
