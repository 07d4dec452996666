"""The last steps before exec, in their order: what a program may do when it begins."""

import os
import resource
import signal
from collections.abc import Callable
from typing import Any

import pytest

from cotenant_local.runtime.inside import identity, seccomp, syscalls
from cotenant_local.runtime.inside.reports import SetupError

Calls = list[tuple[Any, ...]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Calls that would change the process are recorded instead of made."""
    made: Calls = []

    def recorded(name: str) -> Callable[..., None]:
        return lambda *arguments, **_: made.append((name, *arguments))

    for name in ("setgroups", "setresgid", "setresuid"):
        monkeypatch.setattr(os, name, recorded(name))
    for name in ("prctl", "setns", "set_capabilities", "unshare"):
        monkeypatch.setattr(syscalls, name, recorded(name))
    monkeypatch.setattr(seccomp, "install", recorded("seccomp"))
    monkeypatch.setattr(resource, "setrlimit", recorded("setrlimit"))
    monkeypatch.setattr(identity, "LAST_CAPABILITY", 2)
    return made


def process(**changes: Any) -> dict[str, Any]:
    return {
        "rlimits": {},
        "uid": 0,
        "gid": 0,
        "groups": [],
        "map_user": False,
        "may_set_groups": True,
        "no_new_privs": False,
        "capabilities": [0, 1, 2],
        "seccomp": False,
        **changes,
    }


AMBIENT = ("prctl", syscalls.PR_CAP_AMBIENT, syscalls.PR_CAP_AMBIENT_CLEAR_ALL)
DEATH = ("prctl", syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
NO_NEW_PRIVS = ("prctl", syscalls.PR_SET_NO_NEW_PRIVS, 1)


def test_rights_go_before_the_ids_and_capabilities_last(calls: Calls) -> None:
    asked = process(uid=1234, gid=77, groups=[5], capabilities=[1], no_new_privs=True, seccomp=True)
    identity.apply({**asked, "rlimits": {"RLIMIT_NOFILE": (1, 2)}})
    assert calls == [
        ("setrlimit", resource.RLIMIT_NOFILE, (1, 2)),
        ("setgroups", [5]),
        NO_NEW_PRIVS,
        ("prctl", syscalls.PR_CAPBSET_DROP, 0),
        ("prctl", syscalls.PR_CAPBSET_DROP, 2),
        ("seccomp", [1]),
        ("setresgid", 77, 77, 77),
        ("setresuid", 1234, 1234, 1234),
        AMBIENT,
        ("set_capabilities", 0, 0, 0),  # another user than root has none
        DEATH,
    ]


def test_root_keeps_the_capabilities_that_were_asked_for(calls: Calls) -> None:
    identity.apply(process(capabilities=[0, 2]))
    assert ("set_capabilities", 0b101, 0b101, 0) in calls


def test_where_groups_cannot_be_set_they_are_left(calls: Calls) -> None:
    identity.apply(process(groups=[5], may_set_groups=False))
    assert [name for name, *_ in calls] == ["setresgid", "setresuid", "prctl", "set_capabilities", "prctl"]


def test_a_mapped_user_joins_the_namespace_of_the_containers_program(calls: Calls) -> None:
    identity.apply(process(uid=1234, map_user=True, user_namespace=9))
    assert calls == [("setns", 9, syscalls.CLONE_NEWUSER, "user"), AMBIENT, ("set_capabilities", 0, 0, 0), DEATH]


def test_a_user_that_cannot_be_become_is_named(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "setresuid", refuse)
    with pytest.raises(SetupError, match=r"^cannot become user 7 group 8: Operation not permitted$"):
        identity.apply(process(uid=7, gid=8))


@pytest.mark.parametrize(("number", "passes"), [(22, True), (1, False)])
def test_a_capability_that_the_kernel_does_not_know_needs_no_dropping(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, number: int, passes: bool
) -> None:
    def prctl(option: int, *_: object, what: str) -> None:
        if option == syscalls.PR_CAPBSET_DROP:
            raise OSError(number, what)

    monkeypatch.setattr(syscalls, "prctl", prctl)
    if passes:
        identity.apply(process(capabilities=[]))
        return
    with pytest.raises(OSError, match="drop capability 0"):
        identity.apply(process(capabilities=[]))


def test_no_signal_is_ignored_or_blocked_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    reset: set[int] = set()
    masks: list[tuple[Any, ...]] = []
    monkeypatch.setattr(signal, "signal", lambda number, handler: reset.add(number) if not handler else None)
    monkeypatch.setattr(signal, "pthread_sigmask", lambda *mask: masks.append(mask))
    identity.reset_signals()
    assert reset == signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
    assert masks == [(signal.SIG_SETMASK, [])]
