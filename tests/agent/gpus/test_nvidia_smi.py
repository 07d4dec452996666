"""The reset is nvidia-smi's, and its refusal is passed on as it stands."""

from pathlib import Path

import pytest

from cotenant_agent.gpus.nvidia_smi import reset_device


@pytest.mark.parametrize(
    ("script", "said"),
    [
        pytest.param('[ "$*" = "--gpu-reset --id=GPU-a" ]', "", id="done"),
        pytest.param(
            "echo 'GPU 00000000:18:00.0 is currently in use by one or more other processes.'; exit 19",
            "GPU 00000000:18:00.0 is currently in use by one or more other processes.",
            id="refused",
        ),
        pytest.param("echo Insufficient Permissions >&2; exit 4", "Insufficient Permissions", id="no rights"),
        pytest.param("exit 3", "nvidia-smi ended with 3", id="nothing said"),
    ],
)
def test_the_driver_has_the_last_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, said: str) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert reset_device("GPU-a") == said


def test_without_the_program_nothing_is_reset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert reset_device("GPU-a") == "nvidia-smi is not in the agent's container"
