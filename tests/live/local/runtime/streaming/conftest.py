"""A container to stream to, for the tests that are marked `sandbox`."""

from collections.abc import Iterator

import pytest

from tests.live.local.runtime.sandbox import Kubelet


@pytest.fixture(scope="module")
def shell(node: Kubelet) -> Iterator[str]:
    """A container in which there is time to run things."""
    container = node.start(node.pod("shell"), "sleep", "10000")
    yield container
    node.stop(container)
