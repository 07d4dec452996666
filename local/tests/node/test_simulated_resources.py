"""The kubelet of a machine whose size is simulated."""

from pathlib import Path

from cotenant_local.node import simulated_resources


def test_the_kubelet_of_a_simulated_machine_reads_what_was_asked_for(tmp_path: Path) -> None:
    real = "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    400 kB\nHugePages_Total:       0\n"
    shown = dict(line.split(":") for line in simulated_resources.meminfo(real, total=4096 * 1024).splitlines())
    figures = {name: int(value.split()[0]) for name, value in shown.items()}
    # The real machine uses 600 kB; the simulated one has to show the same use.
    assert figures["MemTotal"] == 4096
    assert figures["MemAvailable"] == 4096 - 600
    simulated_resources.write_processors(tmp_path, 3)
    assert (tmp_path / "cpu" / "online").read_text() == "0-2\n"
    assert sorted(cpu.name for cpu in (tmp_path / "node" / "node0").glob("cpu*")) == ["cpu0", "cpu1", "cpu2"]
