"""A cluster is refused where its programs could not watch their files."""

from __future__ import annotations

import ctypes
import errno
import os

import pytest

from cotenant_local.host import file_watches
from cotenant_local.host.errors import LocalError


class Libc:
    """Gives out so many instances, then the error."""

    def __init__(self, allowed: int, error: int) -> None:
        self._allowed, self._error = allowed, error
        self.held: list[int] = []

    def inotify_init1(self, _: int) -> int:
        if len(self.held) == self._allowed:
            ctypes.set_errno(self._error)
            return -1
        self.held.append(os.open("/dev/null", os.O_RDONLY))
        return self.held[-1]


def given(monkeypatch: pytest.MonkeyPatch, allowed: int, error: int = errno.EMFILE) -> Libc:
    libc = Libc(allowed, error)
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: libc)
    return libc


def test_a_cluster_whose_programs_can_watch_their_files_is_let_through_and_nothing_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    libc = given(monkeypatch, 29)
    file_watches.check(2)
    assert len(libc.held) == 29
    for descriptor in libc.held:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


def test_one_instance_too_few_is_refused_with_the_setting_that_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, 28)
    with pytest.raises(LocalError, match=r"needs 29 instances of inotify, and 28 are left.*max_user_instances=\d+$"):
        file_watches.check(2)


@pytest.mark.parametrize("error", [errno.ENOSYS, errno.ENOMEM])
def test_where_instances_cannot_be_counted_nothing_is_refused(monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    given(monkeypatch, 0, error)
    file_watches.check(2)


def test_this_machine_lets_a_program_watch_a_file() -> None:
    assert file_watches._left(1) == 1
