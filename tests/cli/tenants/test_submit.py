"""`submit`: the folder that travels, the plan that is shown, what is made and what is not."""

from __future__ import annotations

import argparse
import io
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from cotenant.api.conversion.to_core import parse_job
from cotenant.cli import main
from cotenant.cli.errors import EXIT_UNAVAILABLE, UserError
from cotenant.cli.tenants import logs
from cotenant.cli.tenants.submit import gpu_of
from cotenant.controller.client.kube import CONFIG_MAPS, LOCAL_QUEUES
from tests.cli.tenants.cluster import PlayedCluster

STARTS = {"metadata": {"name": "j", "namespace": "red"},
          "status": {"outcome": "Starts", "asks": "2 GPUs", "nodes": {"n1": 2}}}  # fmt: skip


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('hello')\n")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("secret")
    return tmp_path


@pytest.fixture
def ready(cluster: PlayedCluster, here: Path) -> PlayedCluster:
    cluster.answers["/namespaces/red/offers"] = {"items": [{"metadata": {"name": "team"}}]}
    cluster.answers["/namespaces/red/whatifs"] = STARTS
    return cluster


def submitted(cluster: PlayedCluster) -> tuple[dict[str, Any], dict[str, Any]]:
    [job] = [one for (kind, _), one in cluster.kube._objects.items() if kind.plural == "trainingjobs"]
    code = cluster.kube.stored(CONFIG_MAPS, f"{job['metadata']['name']}-code", "red")
    assert code is not None
    return job, code


def test_a_script_with_flags_is_a_job_with_its_folder(ready: PlayedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--yes", "--workers", "2", "--gpu", "1/2", "--gpu-class", "H100", "--expected", "2h", "--env", "A=b=c",
             "--cpu", "4", "--memory", "8Gi", "train.py", "--epochs", "3"]  # fmt: skip
    assert main.main(["submit", *words]) == 0
    job, code = submitted(ready)
    name = job["metadata"]["name"]
    assert name.startswith("train-")
    assert job["spec"] == {
        "queue": "team",
        "workers": 2,
        "gpu": {"memoryFraction": "0.5", "classes": ["H100"]},
        "runtime": {
            "command": ["python", "train.py", "--epochs", "3"],
            "code": {"configMap": {"name": f"{name}-code"}},
            "env": [{"name": "A", "value": "b=c"}],
        },
        "resources": {"cpu": "4", "memory": "8Gi"},
        "expectedRuntime": "2h",
    }
    assert parse_job(job).spec.workers == 2
    assert (code["data"], code["immutable"]) == ({"train.py": "print('hello')\n"}, True)
    assert code["metadata"]["ownerReferences"] == [
        {"apiVersion": "cotenant.dev/v1beta1", "kind": "TrainingJob", "name": name, "uid": job["metadata"]["uid"]}
    ]
    assert capsys.readouterr().out.splitlines() == [
        "red/j would start now for 2 GPUs, workers on n1 (2).",
        f"red/{name} is submitted.",
    ]


def test_the_plan_is_shown_and_nothing_made_on_wish(ready: PlayedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["submit", "--dry-run", "train.py"]) == 0
    assert "would start now" in capsys.readouterr().out
    assert main.main(["submit", "--dry-run", "-o", "yaml", "train.py"]) == 0
    assert [one["kind"] for one in yaml.safe_load(capsys.readouterr().out)["items"]] == ["ConfigMap", "TrainingJob"]
    assert ready.writes == []


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("", 1), ("no", 1)])
def test_a_person_is_asked(ready: PlayedCluster, monkeypatch: pytest.MonkeyPatch, answer: str, code: int) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _: answer)
    assert main.main(["submit", "train.py"]) == code
    assert bool(ready.writes) == (code == 0)


def test_a_script_that_nobody_can_be_asked_about_says_yes(
    ready: PlayedCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert main.main(["submit", "train.py"]) == 2
    assert "--yes" in capsys.readouterr().err
    assert ready.writes == []


def test_an_operator_that_answers_nothing_holds_up_nobody(
    ready: PlayedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    def unavailable(_: Any) -> dict[str, Any]:
        raise UserError("no such API", 5)

    ready.answers["/namespaces/red/whatifs"] = unavailable
    assert main.main(["submit", "--yes", "--queue", "team", "train.py"]) == 0
    assert "The operator gave no plan: no such API" in capsys.readouterr().out


def test_the_same_folder_twice_is_one_job(ready: PlayedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert [main.main(["submit", "--yes", "train.py"]) for _ in range(2)] == [0, 1]
    assert "is there already: give another --name" in capsys.readouterr().err
    Path("train.py").write_text("print('another')\n")
    assert main.main(["submit", "--yes", "train.py"]) == 0


def test_a_job_whose_folder_is_not_taken_does_not_stay(ready: PlayedCluster) -> None:
    ready.kube.put(CONFIG_MAPS, {"metadata": {"name": "mine-code", "namespace": "red"}})
    assert main.main(["submit", "--yes", "--name", "mine", "train.py"]) == 1
    assert ready.writes == ["POST trainingjobs/mine", "POST configmaps/mine-code", "DELETE trainingjobs/mine"]


@pytest.mark.parametrize(("phase", "code"), [("Succeeded", 0), ("Failed", 1)])
def test_the_end_is_waited_for(ready: PlayedCluster, capsys: pytest.CaptureFixture[str], phase: str, code: int) -> None:
    ready.on_sleep = lambda: ready.becomes("mine", phase=phase, message="over")
    assert main.main(["submit", "--yes", "--wait", "--name", "mine", "train.py"]) == code
    assert capsys.readouterr().out.splitlines()[-2:] == ["Pending", f"{phase}: over"]


@pytest.mark.parametrize(("first", "follows"), [("Running", True), ("Succeeded", False)])
def test_what_a_job_prints_is_shown_also_when_it_is_over_at_once_and_its_end_once(
    ready: PlayedCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, first: str, follows: bool
) -> None:
    def printed(args: argparse.Namespace) -> int:
        ready.becomes("mine", phase="Succeeded", message="over")
        print(f"step 1, followed: {args.follow}")
        return 0

    monkeypatch.setattr(logs, "run", printed)
    ready.on_sleep = lambda: ready.becomes("mine", phase=first, message="now")
    assert main.main(["submit", "--yes", "--follow", "--name", "mine", "train.py"]) == 0
    shown = capsys.readouterr().out.splitlines()
    begun = ["Running: now"] if follows else []
    assert shown[shown.index("Pending") :] == ["Pending", *begun, f"step 1, followed: {follows}", "Succeeded: over"]


@pytest.mark.parametrize("version", ["cotenant.dev/v1beta1", "cotenant.dev/v1alpha1"])
def test_a_manifest_is_submitted_as_it_is_in_the_present_version(
    ready: PlayedCluster, here: Path, version: str
) -> None:
    spec = {"queue": "q", "gpu": {"count": 1}, "runtime": {"command": ["true"]}}
    document = {"apiVersion": version, "kind": "TrainingJob", "metadata": {"name": "m"}, "spec": spec}
    (here / "job.yaml").write_text(yaml.safe_dump(document))
    assert main.main(["submit", "--yes", "-f", "job.yaml"]) == 0
    assert (ready.stored("m")["spec"], ready.stored("m")["apiVersion"]) == (spec, "cotenant.dev/v1beta1")
    assert (ready.asked[0][0], ready.writes) == ("/namespaces/red/whatifs", ["POST trainingjobs/m"])


def test_what_else_is_in_a_manifest_is_left_out_and_named(
    ready: PlayedCluster, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = {"queue": "q", "gpu": {"count": 1}, "runtime": {"command": ["true"]}}
    job = {"apiVersion": "cotenant.dev/v1beta1", "kind": "TrainingJob", "metadata": {"name": "m"}, "spec": spec}
    code = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"}, "data": {}}
    (here / "job.yaml").write_text(yaml.safe_dump_all([code, job]))
    assert main.main(["submit", "--yes", "-f", "job.yaml"]) == 0
    assert "ConfigMap code is left out" in capsys.readouterr().err
    assert ready.writes == ["POST trainingjobs/m"]


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        (["PyTorchJob", "Service"], "job.yaml has no TrainingJob; it has PyTorchJob, Service"),
        ([], "job.yaml has no TrainingJob; it has nothing"),
        (["TrainingJob", "TrainingJob"], "there are 2 TrainingJobs; submit makes one: kubectl apply makes all"),
    ],
)
def test_a_manifest_without_one_job_is_refused_with_what_is_in_it(
    ready: PlayedCluster, here: Path, capsys: pytest.CaptureFixture[str], kinds: list[str], said: str
) -> None:
    (here / "job.yaml").write_text(yaml.safe_dump_all([{"kind": kind} for kind in kinds]))
    assert main.main(["submit", "--yes", "-f", "job.yaml"]) == 2
    assert said in capsys.readouterr().err
    assert ready.writes == []


@pytest.mark.parametrize("verb", [["submit"], ["whatif"]])
def test_a_text_that_is_no_yaml_is_refused_with_its_place(
    ready: PlayedCluster, here: Path, capsys: pytest.CaptureFixture[str], verb: list[str]
) -> None:
    (here / "job.yaml").write_text("kind: TrainingJob\n  spec: [\n")
    assert main.main([*verb, "-f", "job.yaml"]) == 1
    assert "job.yaml" in capsys.readouterr().err
    assert ready.writes == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "either a script"),
        (["-f", "x.yaml", "train.py"], "either a script"),
        (["--gpu", "many", "train.py"], "--gpu 'many': give a number of GPUs"),
        (["--env", "A", "train.py"], "--env A"),
        (["/etc/hostname"], "not in the folder that travels"),
        (["nobody.py"], "no such file"),
        (["tarin.py"], "tarin.py: there is no such file in what travels; did you mean train.py?"),
        (["python"], "no such file in what travels (a command begins with one of python, python3, bash,"),
        (["fish", "train.py"], "fish: there is no such file"),
        (["job.yaml"], "job.yaml is no program; if it is a manifest: kubectl cotenant submit -f job.yaml"),
    ],
)
def test_words_that_make_no_job_are_refused(
    ready: PlayedCluster, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    assert main.main(["submit", *words]) in {2, 3}
    assert says in capsys.readouterr().err
    assert ready.writes == []


@pytest.mark.parametrize(
    ("words", "name", "command"),
    [
        (["run.sh", "7"], "run-", ["bash", "run.sh", "7"]),
        (["--", "bash", "run.sh", "7"], "run-", ["bash", "run.sh", "7"]),
        (["python", "-m", "train"], "python-", ["python", "-m", "train"]),
        (["torchrun", "--nproc_per_node=2", "train.py"], "train-", ["torchrun", "--nproc_per_node=2", "train.py"]),
    ],
)
def test_a_shell_script_or_a_command_is_a_program_too(
    ready: PlayedCluster, here: Path, words: list[str], name: str, command: list[str]
) -> None:
    (here / "run.sh").write_text("python train.py\n")
    assert main.main(["submit", "--yes", *words]) == 0
    job, _ = submitted(ready)
    assert (job["metadata"]["name"].startswith(name), job["spec"]["runtime"]["command"]) == (True, command)


@pytest.mark.parametrize(
    ("queues", "says"),
    [([], "no queue serves namespace red: ask"), (["a", "b"], "several queues serve namespace red: a, b")],
)
def test_a_namespace_of_no_queue_or_of_several_has_to_name_one(
    ready: PlayedCluster, capsys: pytest.CaptureFixture[str], queues: list[str], says: str
) -> None:
    ready.answers["/namespaces/red/offers"] = {"items": [{"metadata": {"name": name}} for name in queues]}
    assert main.main(["submit", "train.py"]) == 2
    assert says in capsys.readouterr().err


def test_an_operator_that_does_not_answer_holds_up_nobody(
    ready: PlayedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    def silent(_: Any) -> dict[str, Any]:
        raise UserError("its leader may be changing", EXIT_UNAVAILABLE)

    ready.answers |= {"/namespaces/red/offers": silent, "/namespaces/red/whatifs": silent}
    ready.kube.put(LOCAL_QUEUES, {"metadata": {"name": "team", "namespace": "red"}})
    assert main.main(["submit", "--yes", "train.py"]) == 0
    assert "The operator gave no plan: its leader may be changing" in capsys.readouterr().out
    assert submitted(ready)[0]["spec"]["queue"] == "team"


@pytest.mark.parametrize(
    ("text", "gpu"),
    [
        ("2", {"count": 2}),
        ("1/2", {"memoryFraction": "0.5"}),
        ("1/3", {"memoryFraction": "0.333"}),
        ("2/2", {"count": 1}),
        ("0.4", {"memoryFraction": "0.4"}),
        (".25", {"memoryFraction": "0.25"}),
        ("16Gi", {"memory": "16Gi"}),
        ("H100:8", {"count": 8, "classes": ["H100"]}),
    ],
)
def test_a_size_of_gpus_is_whole_a_part_or_memory(text: str, gpu: dict[str, Any]) -> None:
    assert gpu_of(text) == gpu


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0", "more than one GPU is a whole number"),
        ("-1", "a share lies between 0 and 1"),
        ("3/2", "at most one GPU"),
        ("1/0", "at most one GPU"),
        ("half", "give a number of GPUs (2), a share"),
        ("1.5", "more than one GPU is a whole number"),
        ("0.4567", "at most three decimals: write 0.456"),
        ("", "give a number of GPUs (2), a share"),
    ],
)
def test_a_size_that_is_none_is_refused_with_what_to_write(text: str, said: str) -> None:
    with pytest.raises(UserError, match=re.escape(said)) as refused:
        gpu_of(text)
    assert str(refused.value).startswith(f"--gpu {text!r}: ")


def test_the_classes_are_named_once() -> None:
    assert gpu_of("2", ["H100", "A100"]) == {"count": 2, "classes": ["H100", "A100"]}
    with pytest.raises(UserError, match="--gpu H100:2 names a class: leave --gpu-class out"):
        gpu_of("H100:2", ["A100"])
