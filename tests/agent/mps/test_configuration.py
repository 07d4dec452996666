"""Files and names of MPS: what a daemon reads, and what fits into a socket's name."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from cotenant_agent.mps.configuration import (
    ROOT,
    SOCKET_MAX,
    MpsError,
    NamespaceLimits,
    configuration,
    gpu_folder,
    mebibytes,
    namespace_name,
    percent,
    percent_of,
)

CLAIM = "6f1c0a3e-91d4-4c55-a1d5-3f9b6f0f8a11"


def test_every_namespace_has_both_limits_and_who_is_in_none_has_next_to_nothing() -> None:
    share = NamespaceLimits(compute_percent=40, memory_mib=32_000)
    assert tomllib.loads(configuration("GPU-a", {"share": share})) == {
        "schema_version": "1.0",
        "servers": {
            "gpu": {
                "allowed_devices": "GPU-a",
                "active_thread_percentage": "1",
                "pinned_memory_limit": "1M",
                "namespaces": {"share": {"active_thread_percentage": "40", "pinned_memory_limit": "32000M"}},
            }
        },
    }


def test_the_socket_of_a_namespace_has_a_name_that_the_kernel_takes() -> None:
    folder = gpu_folder(ROOT, "GPU-0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9")
    assert folder.namespace(namespace_name(CLAIM)) == Path(
        "/run/cotenant-mps/0a1b2c3d4e5f60718293a4b5c6d7e8f9/pipe/gpu/c6f1c0a3e91d44c55a1d53f9b6f0f8a11"
    )
    assert len(str(folder.namespace(namespace_name(CLAIM)) / "control")) <= SOCKET_MAX
    with pytest.raises(MpsError, match="too long a name for sockets"):
        gpu_folder(Path("/a" * 20), "GPU-0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9")


@pytest.mark.parametrize(("milli", "share"), [(1, 1), (9, 1), (10, 1), (19, 1), (405, 40), (999, 99), (1000, 100)])
def test_a_ceiling_is_never_more_than_its_share_but_for_the_least_that_there_is(milli: int, share: int) -> None:
    assert percent_of(milli) == share
    assert share * 10 <= max(milli, 10)


@pytest.mark.parametrize(("text", "mib"), [("20G", 20_480), ("512M", 512), ("2048K", 2)])
def test_amounts_have_binary_units(text: str, mib: int) -> None:
    assert mebibytes(text) == mib


@pytest.mark.parametrize("text", ["", "20", "G", "1.5G", "unlimited"])
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(MpsError, match="is no limit of memory"):
        mebibytes(text)


@pytest.mark.parametrize(("text", "share"), [("30.00", 30), ("30%", 30), ("29.97", 30), ("100", 100)])
def test_percentages_are_read_as_they_are_shown(text: str, share: int) -> None:
    assert percent(text) == share


def test_what_is_no_percentage_is_refused() -> None:
    with pytest.raises(MpsError, match="'-' is no percentage of threads"):
        percent("-")
