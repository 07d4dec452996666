"""What holds for every test. Tests that need a cluster, containers or Ray are in the folder `tests/live`."""

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes to draw says how busy the machine is, nothing about what is tested. The same code has the
# same examples, so a change is not red for a fault that was there before: `make explore` looks for those.
GATE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.register_profile("gate", GATE)
settings.register_profile("explore", GATE, derandomize=False, max_examples=1_000)
settings.load_profile("gate")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--oldest", action="store_true", help="cluster tests that need no nodes: on the oldest Kubernetes")
