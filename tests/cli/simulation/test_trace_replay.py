"""`cotenant simulate --trace` as a person calls it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from cotenant.cli.main import main
from tests.simulator.worlds import gpu_node, job, queue

TRACE = """submit,duration,gpus,queue,declared
0,3600,1,red,7200
60,600,1,blue,600
120,0,1,blue,600
180,600,2,red,
"""


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "week.csv"
    path.write_text(TRACE, encoding="utf-8")
    return str(path)


def test_policies_stand_side_by_side_and_what_is_not_used_is_said(
    trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["simulate", "--trace", trace, "--cluster", "1x2", "--start-cost", "0"]
    assert main(words) == 0
    said = capsys.readouterr()
    assert said.err == "note: 1 × not used: never ran, or has no run time\n"
    lines = said.out.splitlines()
    assert lines[0] == "3 jobs, 2 GPUs on 1 nodes, 2 queues"
    assert [line.split()[0] for line in lines[2:7]] == ["policy", "Age", "LeastService", "LAS", "SRSF"]
    assert lines[8].startswith("queue")
    assert main(words) == 0
    assert capsys.readouterr() == said


def test_the_same_as_json_with_a_picture(trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "week.svg"
    words = ["--policy", "Age", "--start-cost", "0", "--picture", str(picture), "-o", "json"]
    assert main(["simulate", "--trace", trace, "--cluster", "1x2", "--queue", "all", *words]) == 0
    values = json.loads(capsys.readouterr().out)
    (age,) = values["policies"]
    # An hour beside ten minutes, then both GPUs for ten minutes: 3,600 s, 600 s, and 3,420 s of waiting.
    assert age["jct_mean_h"] == pytest.approx((3600 + 600 + 4020) / 3 / 3600)
    assert [one["queue"] for one in values["queues"]] == ["all"]
    assert picture.read_text(encoding="utf-8").startswith("<svg")


def test_nodes_and_queues_may_come_from_documents_and_jobs_there_are_not_played(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = [gpu_node("node-1", 2), queue("red", "1"), queue("blue", "1"), job("other", gpus=1, runs="1s")]
    world = tmp_path / "world.yaml"
    world.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    assert main(["simulate", "--trace", trace, "-f", str(world), "--policy", "Age", "-o", "json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["policies"][0]["jobs"] == 3
    assert "note: 1 TrainingJob of the documents is not played: the jobs are those of the trace" in said.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "nothing to simulate"),
        (["--trace", "TRACE"], "no GPUs to run on"),
        (["--trace", "TRACE", "--cluster", "many"], "52x8"),
        (["--trace", "TRACE", "--cluster", "1x2", "--policy", "Best"], "there is no policy 'Best'"),
        (["--trace", "TRACE", "--cluster", "1x2", "--since", "soon"], "soon"),
        (["--trace", "TRACE", "--cluster", "1x2", "--since", "9999"], "no job of the trace can be played"),
        (["--trace", "none.csv", "--cluster", "1x2"], "none.csv"),
    ],
)
def test_what_cannot_be_played_is_said(
    words: list[str], says: str, trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *(trace if word == "TRACE" else word for word in words)]) in (1, 2)
    assert says in capsys.readouterr().err
