"""Servers listen to both families of addresses."""

from __future__ import annotations

import socket

import pytest

from cotenant.serving import sockets


def reached(door: socket.socket, host: str) -> bool:
    try:
        socket.create_connection((host, door.getsockname()[1]), timeout=2).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    ("host", "answers"),
    [("::", (True, True)), ("", (True, True)), ("127.0.0.1", (True, False)), ("::1", (False, True))],
)
def test_a_server_of_all_addresses_answers_by_ipv4_and_by_ipv6(host: str, answers: tuple[bool, bool]) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with sockets.listening((host, 0)) as door:
        assert (reached(door, "127.0.0.1"), reached(door, "::1")) == answers


def test_a_machine_without_ipv6_listens_by_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    create = socket.create_server

    def without_ipv6(address: tuple[str, int], **options: object) -> socket.socket:
        if options.get("dualstack_ipv6"):
            raise OSError("address family not supported")
        return create(address, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "create_server", without_ipv6)
    with sockets.listening(("::", 0)) as door:
        assert reached(door, "127.0.0.1")
