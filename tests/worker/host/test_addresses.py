"""Addresses of pods as programs write them."""

from __future__ import annotations

import socket

import pytest

from cotenant_worker.host.addresses import at, family_of, host_and_port


@pytest.mark.parametrize(
    ("host", "written", "family"),
    [
        ("10.1.2.3", "10.1.2.3:6379", socket.AF_INET),
        ("fd00::7", "[fd00::7]:6379", socket.AF_INET6),
        ("train-1-0.train.red.svc", "train-1-0.train.red.svc:6379", socket.AF_INET),
    ],
)
def test_an_ipv6_address_stands_in_brackets_and_is_read_again(
    host: str, written: str, family: socket.AddressFamily
) -> None:
    assert at(host, 6379) == written
    assert host_and_port(written) == (host, 6379)
    assert family_of(host) is family
