"""What a node can do, found by looking at what of the host is mounted."""

from pathlib import Path

import pytest

from cotenant_agent.gpus.capabilities import Capabilities, detect, isolation, toolkit_in


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_a_host_of_which_nothing_is_mounted_can_nothing(tmp_path: Path) -> None:
    assert detect(tmp_path, runtime_class=False) == Capabilities()


@pytest.mark.parametrize(
    ("path", "text", "want"),
    [
        ("etc/cdi/nvidia.yaml", "kind: nvidia.com/gpu\n", Capabilities(cdi=True)),
        ("var/run/cdi/nvidia.json", '{"kind": "nvidia.com/gpu"}', Capabilities(cdi=True)),
        ("etc/cdi/other.yaml", "kind: vendor.com/net\n", Capabilities()),
        ("sys/fs/cgroup/dmem.capacity", "nvidia/0000:18:00.0/vidmem 85899345920\n", Capabilities(dmem=True)),
        ("sys/fs/cgroup/dmem.capacity", "drm/0000:00:02.0/vram0 1\n", Capabilities()),
        ("usr/bin/nvidia-cuda-mps-control", "", Capabilities(mps=True)),
        ("etc/nvidia-container-runtime/config.toml", "[nvidia-container-cli]\n", Capabilities(env_allowed=True)),
        (
            "etc/nvidia-container-runtime/config.toml",
            "accept-nvidia-visible-devices-envvar-when-unprivileged = false\n",
            Capabilities(env_allowed=False),
        ),
        ("etc/nvidia-container-runtime/config.toml", "not toml", Capabilities()),
        (
            "var/lib/dpkg/status",
            "Package: a\nVersion: 1\n\nPackage: nvidia-container-toolkit\nVersion: 1.20.0-1\n",
            Capabilities(toolkit_version="1.20.0-1"),
        ),
    ],
)
def test_each_capability_is_found_where_it_shows(tmp_path: Path, path: str, text: str, want: Capabilities) -> None:
    write(tmp_path, path, text)
    assert detect(tmp_path, runtime_class=False) == want


def test_a_host_without_the_toolkits_package_has_no_version() -> None:
    assert toolkit_in("Package: nvidia-container-toolkit-base\nVersion: 1.20.0\n") == ""


@pytest.mark.parametrize(
    ("found", "simulated", "attributing", "want"),
    [
        (Capabilities(runtime_class=True), False, True, "Watched"),
        (Capabilities(runtime_class=True, env_allowed=True), False, True, "Watched"),
        (Capabilities(runtime_class=True), False, False, "Cooperative"),
        (Capabilities(), False, True, "None"),
        (Capabilities(runtime_class=True, env_allowed=False), False, True, "None"),
        (Capabilities(runtime_class=True), True, True, "None"),
        (Capabilities(runtime_class=True, dmem=True), False, True, "Watched"),
    ],
)
def test_no_level_is_claimed_that_is_not_enforced(
    found: Capabilities, simulated: bool, attributing: bool, want: str
) -> None:
    assert isolation(found, simulated=simulated, attributing=attributing) == want
