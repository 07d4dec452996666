"""What holds for every test. Tests that need a cluster, containers or Ray are in the folder `tests/live`."""

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes to draw says how busy the machine is, nothing about what is tested.
settings.register_profile("busy-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy-machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--oldest", action="store_true", help="cluster tests that need no nodes: on the oldest Kubernetes")
