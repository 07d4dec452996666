"""`cotenant validate`: files, folders and standard input; every fault with its file, line and field."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from cotenant.cli.main import main

GOOD = """\
apiVersion: cotenant.dev/v1beta1
kind: TrainingJob
metadata: {name: good, namespace: team-a}
spec: {queue: team-a, gpu: {count: 1}, runtime: {entrypoint: train:main}}
"""
BAD = """\
apiVersion: cotenant.dev/v1beta1
kind: TrainingJob
metadata: {name: bad}
spec: {queue: team-a, gpu: {count: 100}, runtime: {entrypoint: train:main}, replicas: 2}
"""
OTHER = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: code}\n"


def test_every_document_of_a_file_gets_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(f"{GOOD}---\n{BAD}---\n{OTHER}")
    assert main(["validate", "-f", str(file)]) == 1
    printed = capsys.readouterr()
    assert printed.out == (
        f"{file}:1: TrainingJob team-a/good is valid\n{file}:11: ConfigMap code is not of cotenant.dev: not checked\n"
    )
    assert printed.err == (
        f"{file}:6: TrainingJob bad is refused\n"
        "  line 9: spec.gpu.count: count is per worker, and a worker is on one node: at most 64; for more add workers\n"
        "  line 9: spec.replicas: is not a field of this object; write `spec.workers: 2`\n"
    )


def test_a_folder_is_every_file_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "deeper").mkdir()
    for name in ("b.yaml", "a.yml", "deeper/c.yaml", "notes.txt"):
        (tmp_path / name).write_text(GOOD)
    assert main(["validate", "-f", str(tmp_path)]) == 0
    flat = capsys.readouterr().out
    assert main(["validate", "-R", "-f", str(tmp_path)]) == 0
    deep = capsys.readouterr().out
    assert [line.split(":")[0].removeprefix(f"{tmp_path}/") for line in flat.splitlines()] == ["a.yml", "b.yaml"]
    assert len(deep.splitlines()) == 3


def test_a_file_needs_no_flag_and_nothing_named_says_what_to_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.yaml").write_text(GOOD)
    assert main(["validate", str(tmp_path / "a.yaml")]) == 0
    assert "TrainingJob team-a/good is valid" in capsys.readouterr().out
    assert main(["validate"]) == 2
    assert "name what to check: `cotenant validate FILE`, a folder, or - for stdin" in capsys.readouterr().err


def test_standard_input_is_a_file_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(GOOD))
    assert main(["validate", "-q", "-f", "-"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1", "line 1: expected ',' or ']', but got '<stream end>'"),
        ("a: 1\nb: 2\na: 3\n", "line 3: the key 'a' appears twice"),
        ("a: .nan\n", "line 1: .nan is not a number that JSON has"),
        ("a: !!python/name:os.system x\n", "line 1: could not determine a constructor for the tag"),
        ("- 1\n", ":1: the document is refused\n  line 1: must be an object with fields, not a list"),
        ("kind: TrainingJob\napiVersion: cotenant.dev/v2\n", "apiVersion: must be cotenant.dev/v1beta1"),
        (
            "kind: TrainJob\napiVersion: cotenant.dev/v1beta1\n",
            "kind: must be one of TrainingJob, Queue, GPUNode, QuotaRequest, Booking, RemoteCluster, Sweep, ",
        ),
    ],
)
def test_what_is_no_document_is_refused_with_its_place(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "odd.yaml"
    file.write_text(text)
    assert main(["validate", "-f", str(file)]) == 1
    assert message in capsys.readouterr().err


def test_every_mistake_has_the_line_of_its_field(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["apiVersion: cotenant.dev/v1beta1", "kind: TrainingJob", "metadata: {name: a}", "spec:", "  queue: A"]
    lines += ["  gpu: 2", "  runtime:", "    command: python train.py", "    env:", "      - name: A", "      - B=1"]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(["---", *lines])))
    assert main(["validate", "-f", "-"]) == 1
    shown = [line.split(": ")[:2] for line in capsys.readouterr().err.splitlines()[1:]]
    assert shown == [
        ["  line 6", "spec.queue"],
        ["  line 7", "spec.gpu"],
        ["  line 9", "spec.runtime.command"],
        ["  line 12", "spec.runtime.env[1]"],
    ]


def test_verdicts_come_as_json_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(f"{GOOD}---\n{BAD.replace('count: 100', 'count: 1')}")
    assert main(["validate", "-o", "json", "-f", str(file)]) == 1
    message = "is not a field of this object; write `spec.workers: 2`"
    assert json.loads(capsys.readouterr().out) == [
        {
            "file": str(file),
            "line": 1,
            "document": "TrainingJob team-a/good",
            "verdict": "is valid",
            "problems": [],
        },
        {
            "file": str(file),
            "line": 6,
            "document": "TrainingJob bad",
            "verdict": "is refused",
            "problems": [{"line": 9, "field": "spec.replicas", "message": message}],
        },
    ]


@pytest.mark.parametrize(
    ("version", "kind", "says"),
    [
        ("ray.io/v1", "RayJob", "; here it is a TrainingJob (docs/switching.md)"),
        ("ray.io/v1", "RayCluster", "; here it is a Session (docs/switching.md)"),
        ("ray.io/v1", "RayService", ""),
        ("kubeflow.org/v1", "PyTorchJob", "; here it is a TrainingJob (docs/switching.md)"),
        ("kubeflow.org/v1beta1", "Experiment", "; here it is a Sweep (docs/switching.md)"),
        ("batch.volcano.sh/v1alpha1", "Job", "; here it is a TrainingJob (docs/switching.md)"),
        ("kueue.x-k8s.io/v1beta2", "ClusterQueue", "; here it is a Queue (docs/switching.md)"),
        ("kueue.x-k8s.io/v1beta2", "ResourceFlavor", ""),
        ("batch/v1", "Job", ""),
    ],
)
def test_a_kind_of_another_system_is_named_with_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str, kind: str, says: str
) -> None:
    file = tmp_path / "theirs.yaml"
    file.write_text(f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\n")
    assert main(["validate", "-f", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}:1: {kind} a is not of cotenant.dev: not checked{says}\n"


def test_a_file_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "-f", str(tmp_path / "none.yaml")]) == 1
    assert capsys.readouterr().err == f"cotenant: {tmp_path}/none.yaml: there is no such file\n"


def test_nothing_to_check_is_not_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "-f", str(tmp_path)]) == 1
    assert "there is no document" in capsys.readouterr().err


def test_a_list_is_what_is_in_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    items = "".join(f"- {text.replace(chr(10), chr(10) + '  ').rstrip()}\n" for text in (GOOD, OTHER))
    monkeypatch.setattr("sys.stdin", io.StringIO(f"apiVersion: v1\nkind: List\nitems:\n{items}"))
    assert main(["validate", "-f", "-"]) == 0
    assert capsys.readouterr().out == (
        "stdin:1: TrainingJob team-a/good is valid\nstdin:1: ConfigMap code is not of cotenant.dev: not checked\n"
    )
