"""What a node can do, found by looking at what of the host is mounted."""

from dataclasses import replace
from pathlib import Path

import pytest

from cotenant_agent.gpus.capabilities import (
    Capabilities,
    detect,
    isolation,
    memory_limit_missing,
    runtime_class_missing,
    toolkit_in,
    version_in,
)
from cotenant_agent.gpus.readings import Gpu, GpuInventory

ETC = "etc/nvidia-container-runtime/config.toml"
TOOLKIT = "usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml"
REFUSES = "accept-nvidia-visible-devices-envvar-when-unprivileged = false\n"


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
        ("sys/fs/cgroup/cgroup.controllers", "cpu memory\n", Capabilities(cgroup_v2=True)),
        (ETC, "[nvidia-container-cli]\n", Capabilities(env_allowed=True, runtime_config=f"/{ETC}")),
        (ETC, REFUSES, Capabilities(env_allowed=False, runtime_config=f"/{ETC}")),
        (TOOLKIT, REFUSES, Capabilities(env_allowed=False, runtime_config=f"/{TOOLKIT}")),
        (ETC, "not toml", Capabilities()),
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


def test_where_the_gpu_operator_has_its_toolkit_its_configuration_counts(tmp_path: Path) -> None:
    write(tmp_path, ETC, "")
    write(tmp_path, TOOLKIT, REFUSES)
    (missing,) = runtime_class_missing(detect(tmp_path, runtime_class=True))
    assert missing == (
        "the runtime does not honour NVIDIA_VISIBLE_DEVICES of ordinary pods: "
        f"/{TOOLKIT} says {REFUSES.strip()}; set it to true and start the node's container runtime anew"
    )


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


ABLE = Capabilities(runtime_class=True, toolkit_version="1.20.1-1", cgroup_v2=True, limits_readable=True)
H100 = Gpu(uuid="GPU-a", index=0, gpu_class="H100", memory_mib=81920)
NODE = GpuInventory(simulated=False, gpus=(H100,), driver_version="615.71.09")


@pytest.mark.parametrize(
    ("found", "node", "missing"),
    [
        pytest.param(ABLE, NODE, (), id="nothing"),
        pytest.param(
            ABLE, replace(NODE, driver_version="580.65.06"), ("the driver is 580.65.06, it must be 615 or later",),
            id="the driver",
        ),
        pytest.param(
            replace(ABLE, limits_readable=False), NODE,
            ("the driver's library cannot read limits back (nvmlDeviceGetMemoryLimits_v1)",), id="the read-back",
        ),
        pytest.param(
            replace(ABLE, toolkit_version="1.20.0-1"), NODE,
            ("the container toolkit is 1.20.0-1, it must be 1.20.1 or later",), id="the toolkit",
        ),
        pytest.param(
            replace(ABLE, toolkit_version=""), NODE,
            ("the container toolkit is unknown, it must be 1.20.1 or later",), id="the toolkit is not known",
        ),
        pytest.param(
            replace(ABLE, cgroup_v2=False), NODE, ("the host's cgroup v2 tree is not mounted in the agent's pod",),
            id="cgroup v2",
        ),
        pytest.param(
            replace(ABLE, runtime_class=False), NODE,
            ("there is no RuntimeClass for NVIDIA's container runtime",), id="the path below it",
        ),
        pytest.param(
            ABLE, replace(NODE, gpus=(H100, replace(H100, uuid="GPU-b", mig=True))),
            ("a GPU is partitioned by MIG, on which the driver has no such limits",), id="MIG",
        ),
        pytest.param(
            ABLE, replace(NODE, gpus=(replace(H100, uuid="MIG-1", parent="GPU-a"),)),
            ("a GPU is partitioned by MIG, on which the driver has no such limits",), id="MIG instances",
        ),
        pytest.param(ABLE, replace(NODE, simulated=True), ("the GPUs are simulated",), id="simulated"),
        pytest.param(
            replace(ABLE, runtime_class=False, cgroup_v2=False), replace(NODE, driver_version=""),
            (
                "there is no RuntimeClass for NVIDIA's container runtime",
                "the driver is unknown, it must be 615 or later",
                "the host's cgroup v2 tree is not mounted in the agent's pod",
            ),
            id="several things",
        ),
    ],
)  # fmt: skip
def test_limits_of_memory_need_all_of_it_and_what_is_missing_is_named(
    found: Capabilities, node: GpuInventory, missing: tuple[str, ...]
) -> None:
    assert memory_limit_missing(found, node) == missing


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("1.20.1-1", (1, 20, 1)), ("2:1.21", (1, 21)), ("615.71.09", (615, 71, 9)), ("", ()), ("unknown", ())],
)
def test_versions_are_compared_by_their_numbers(text: str, numbers: tuple[int, ...]) -> None:
    assert version_in(text) == numbers


def test_the_version_that_an_administrator_names_counts_before_the_list_of_packages(tmp_path: Path) -> None:
    write(tmp_path, "var/lib/dpkg/status", "Package: nvidia-container-toolkit\nVersion: 1.17.0\n")
    assert detect(tmp_path, runtime_class=False, toolkit="1.20.1").toolkit_version == "1.20.1"
