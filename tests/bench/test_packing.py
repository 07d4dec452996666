"""bench/packing.py end to end on lists of our own: the protocol, every policy, the table and the JSON."""

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
POLICIES = ("random", "bestfit", "bestfit-random", "fgd", "fgd-random", "ours", "ours-random")


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    """Twelve nodes of two models, and pods that ask for about 90 % of their GPUs."""
    nodes = [(f"n{i}", 64_000, 262_144, 4, "G2") for i in range(8)] + [
        (f"t{i}", 96_000, 262_144, 2, "T4") for i in range(4)
    ]
    pods = [
        *((f"a{i}", 3_000, 4_096, 1, 810, "") for i in range(8)),
        *((f"b{i}", 8_000, 8_192, 1, 470, "") for i in range(16)),
        *((f"c{i}", 12_000, 8_192, 1, 1000, "G2" if i % 4 else "T4") for i in range(14)),
        *((f"d{i}", 20_000, 8_192, 0, 0, "") for i in range(6)),
        ("e0", 40_000, 65_536, 4, 1000, "G2"),
    ]
    write(tmp_path / "openb_node_list_gpu_node.csv", ("sn", "cpu_milli", "memory_mib", "gpu", "model"), nodes)
    header = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec")
    write(tmp_path / "openb_pod_list_small.csv", header, pods)
    return tmp_path


def write(path: Path, header: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def bench(lists: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCH / "packing.py"), "--traces", str(lists), "--lists", "small", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def rows(path: Path) -> list[dict[str, Any]]:
    """What was measured, without how long it took."""
    return [{key: value for key, value in row.items() if key != "seconds"} for row in json.loads(path.read_text())]


def test_every_policy_runs_the_protocol_and_is_compared_with_fgd(lists: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    run = bench(lists, "--seeds", "1-2", "--policies", ",".join(POLICIES), "--out", str(out))
    assert run.returncode == 0, run.stderr
    found = rows(out)
    assert [(row["policy"], row["seed"]) for row in found] == [(policy, seed) for policy in POLICIES for seed in (1, 2)]
    assert all(0 < row["at_100"] <= row["at_130"] <= 100 for row in found)
    assert all(
        row["placed"] + row["failed"] == found[seed]["placed"] + found[seed]["failed"]
        for seed in (0, 1)
        for row in found[seed::2]
    )
    assert [line.split()[1] for line in run.stdout.splitlines() if line.startswith("small")] == list(POLICIES)


def test_a_seed_gives_the_same_numbers_every_time_and_in_two_processes(lists: Path, tmp_path: Path) -> None:
    answers = []
    for name, options in (("one", ()), ("two", ("--processes", "2"))):
        out = tmp_path / name
        run = bench(lists, "--seed", "7", "--policies", "fgd,ours", "--out", str(out), *options)
        assert run.returncode == 0, run.stderr
        answers.append(rows(out))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("shift", ["mixed", "nodes", "shares", "cpu", "classes", "gangs"])
def test_a_shifted_run_is_another_world_and_the_same_for_every_policy(lists: Path, tmp_path: Path, shift: str) -> None:
    for name, options in (("plain", ()), ("shifted", ("--shift", shift))):
        run = bench(lists, "--seeds", "7-8", "--policies", "ours,fgd", "--out", str(tmp_path / name), *options)
        assert run.returncode == 0, run.stderr
    bent = rows(tmp_path / "shifted")
    assert rows(tmp_path / "plain") != bent
    assert [row["placed"] + row["failed"] for row in bent[:2]] == [row["placed"] + row["failed"] for row in bent[2:]]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        pytest.param(("--lists", "nothing"), "no such list", id="a list that is not there"),
        pytest.param(("--shift", "sideways"), "invalid choice: 'sideways'", id="a shift that is not there"),
        pytest.param(("--policies", "magic"), "no such policy: magic", id="a policy that is not there"),
    ],
)
def test_what_is_not_there_is_named(lists: Path, options: tuple[str, ...], says: str) -> None:
    run = bench(lists, "--seed", "1", *options)
    assert run.returncode != 0
    assert says in run.stderr
