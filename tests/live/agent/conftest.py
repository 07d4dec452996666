"""The fake NVML library of the plain tests of the agent, and a played host of which an agent is a process."""

from pathlib import Path

from tests.agent.conftest import fake_nvml, nvml

__all__ = ["fake_nvml", "in_this_namespace", "nvml"]


def in_this_namespace(host: Path, *command: str) -> list[str]:
    """The command, run by a process that the played host's /proc takes for its reader, as in a pod with hostPID."""
    return ["sh", "-c", 'ln -s $$ "$0/proc/self" && exec "$@"', str(host), *command]
