"""Only what no driver's library shows; the rest is tested through the library, in `test_nvml.py`."""

import platform

import pynvml
import pytest

from cotenant_agent.gpus.nvml_queries import processes_of

LISTS = ("Compute", "MPSCompute", "Graphics")


@pytest.mark.parametrize(
    ("kernel", "want"),
    [
        pytest.param("5.15.167.4-microsoft-standard-WSL2", None, id="Windows' subsystem, whose lists are empty always"),
        pytest.param("6.8.0-45-generic", (), id="Linux, where an empty list says that nothing runs"),
    ],
)
def test_an_empty_list_of_processes_counts_where_the_driver_fills_it(
    monkeypatch: pytest.MonkeyPatch, kernel: str, want: tuple[()] | None
) -> None:
    monkeypatch.setattr(platform, "release", lambda: kernel)
    for name in LISTS:
        monkeypatch.setattr(pynvml, f"nvmlDeviceGet{name}RunningProcesses", lambda handle: [])
    assert processes_of(None) == want
