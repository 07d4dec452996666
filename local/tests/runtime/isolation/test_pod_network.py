"""Addresses of pods."""

import re

import pytest

from cotenant_local.runtime.isolation import pod_network


def test_addresses_are_given_once_and_the_longest_unused_first() -> None:
    addresses = pod_network.PodAddressPool("10.0.0.0/29", ["10.0.0.2"])
    assert [addresses.allocate() for _ in range(3)] == ["10.0.0.1", "10.0.0.3", "10.0.0.4"]
    addresses.release("10.0.0.1")
    assert [addresses.allocate() for _ in range(3)] == ["10.0.0.5", "10.0.0.6", "10.0.0.1"]
    with pytest.raises(pod_network.PodNetworkError, match=re.escape("all 6 pod addresses of 10.0.0.0/29 are in use")):
        addresses.allocate()
