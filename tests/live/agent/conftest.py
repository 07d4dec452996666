"""The fake NVML library of the plain tests of the agent."""

from tests.agent.conftest import fake_nvml, nvml

__all__ = ["fake_nvml", "nvml"]
