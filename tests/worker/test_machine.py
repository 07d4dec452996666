"""What the kernel says about a container."""

from pathlib import Path

import pytest

from cotenant_worker import machine


@pytest.mark.parametrize(
    ("file", "text", "want"),
    [
        ("memory.events", "low 0\noom 4\noom_kill 3\n", 3),
        ("memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n", 2),
        ("memory/memory.usage_in_bytes", "7\n", 0),
    ],
    ids=["version 2", "version 1", "it cannot be told"],
)
def test_kills_for_memory_are_counted_by_either_version_of_cgroups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str, want: int
) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(text)
    monkeypatch.setattr(machine, "_CGROUP", tmp_path)
    assert machine.oom_kills() == want
