"""`capsule` and `replay`: a decision as a file, and decided again."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cotenant.cli import main
from cotenant.cli.administrators.replay import listed
from cotenant.core.policy import Policy
from cotenant.core.scheduling.scheduler import schedule
from cotenant.decision_log.capsule import Capsule
from tests.support.clusters import make_job, make_node, make_queue, make_snapshot

SNAPSHOT = make_snapshot(
    nodes=[make_node("n1")],
    queues=[make_queue("red", guaranteed=2)],
    jobs=[make_job("a"), *(make_job(f"b{number}", gpus=9) for number in range(30))],
)
CAPSULE = Capsule.of(SNAPSHOT, Policy(), schedule(SNAPSHOT, Policy()), "0.1.0")


KEPT = [
    {"metadata": {"name": name}, "status": {"at": at, "evictions": 1, "bytes": 900}}
    for name, at in (("bbbbbbbb", "2026-01-01T12:00:00Z"), ("aaaaaaaa", "2026-01-01T11:00:00Z"))
]


@pytest.fixture(autouse=True)
def operator(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    answer: dict[str, Any] = {"capsule": CAPSULE.to_document()}
    documents = {"/capsules/current": answer, "/capsules": {"items": KEPT}, "/capsules/aaaaaaaa": answer}
    there = SimpleNamespace(get=documents.__getitem__)
    monkeypatch.setattr("cotenant.cli.administrators.replay.connect", lambda _: there)
    return answer


def test_what_the_operator_decided_is_saved_and_decided_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "capsule"
    assert main.main(["capsule", str(file)]) == 0
    assert "a decision on 31 jobs and 1 node," in capsys.readouterr().out
    assert main.main(["replay", str(file)]) == 0
    assert capsys.readouterr().out == "The same plan, to the byte: 31 lines.\n"


def test_a_plan_that_is_another_shows_the_lines_that_differ(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "capsule"
    file.write_bytes(replace(CAPSULE, plan=CAPSULE.plan[:1]).to_bytes())
    assert main.main(["replay", str(file)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Another plan: 30 lines differ (decided by 0.1.0, replayed by ")
    assert (len(lines), lines[1][:9], lines[-1]) == (22, "+ Verdict", "and 10 more: --all")
    assert main.main(["replay", "--all", str(file)]) == 1
    assert len(capsys.readouterr().out.splitlines()) == 31


def test_a_capsule_goes_through_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main.main(["capsule", "-"]) == 0
    data = capsysbinary.readouterr().out
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    assert main.main(["replay", "-"]) == 0


@pytest.mark.parametrize(("content", "says"), [(None, "cannot be read"), (b"{}", "no decision capsule")])
def test_a_file_that_is_none_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, says: str
) -> None:
    if content is not None:
        (tmp_path / "file").write_bytes(content)
    assert main.main(["replay", str(tmp_path / "file")]) == 2
    assert says in capsys.readouterr().err


def test_a_capsule_that_this_program_does_not_read_is_not_saved(
    operator: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    operator["capsule"] = operator["capsule"] | {"version": 9}
    assert main.main(["capsule", str(tmp_path / "file")]) == 1
    assert "is not understood here" in capsys.readouterr().err
    assert not (tmp_path / "file").exists()


@pytest.mark.parametrize("of", ["aaaaaa", "2026-01-01T11:30:00+00:00"])
def test_a_decision_of_the_past_is_saved_by_its_time_or_its_digest(
    of: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "capsule"
    assert main.main(["capsule", str(file), "--of", of]) == 0
    assert main.main(["replay", str(file)]) == 0
    assert capsys.readouterr().out.endswith("The same plan, to the byte: 31 lines.\n")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["x", "--of", "2026-01-01T10:00:00+00:00"], 3, "no decision of so long ago is kept"),
        (["x", "--of", "yesterday"], 2, "neither a time such as 14:05 nor a digest"),
        ([], 2, "give FILE, or --list"),
        (["x", "--list"], 2, "give FILE, or --list"),
    ],
)
def test_what_is_not_kept_is_refused_in_words(
    words: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["capsule", *words]) == code
    assert says in capsys.readouterr().err


def test_what_is_kept_is_listed_the_newest_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["capsule", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines] == ["DIGEST", "bbbbbbbb", "aaaaaaaa"]


def test_where_no_past_decision_is_kept_the_answer_says_when_one_is() -> None:
    assert "those that evict, and a sample of the others" in listed([])
