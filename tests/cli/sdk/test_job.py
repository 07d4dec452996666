"""The description of a job as the documents that it becomes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cotenant.sdk.errors import InvalidJobError
from cotenant.sdk.job import JobRequest, of_manifest


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "train-me.py").write_text("print('hello')\n")
    return tmp_path / "train-me.py"


def test_a_script_becomes_a_job_with_its_text_beside_it(script: Path) -> None:
    job, code = JobRequest(
        script, args=["--epochs", 3], workers=4, min_workers=2, gpu="1/2", cpu=2, memory="8Gi",
        env={"SEED": 7}, expected_runtime="1h",
        spec={"checkpoint": {"path": "s3://runs/a"}, "resources": {"cpu": "500m"}},
    ).documents("team-a", "vision", "abc123")  # fmt: skip
    assert job == {
        "apiVersion": "cotenant.dev/v1beta1",
        "kind": "TrainingJob",
        "metadata": {"name": "train-me-abc123", "namespace": "team-a"},
        "spec": {
            "queue": "vision",
            "workers": 4,
            "minWorkers": 2,
            "gpu": {"memoryFraction": "0.5"},
            "resources": {"cpu": "500m", "memory": "8Gi"},
            "runtime": {
                "command": ["python", "train-me.py", "--epochs", "3"],
                "code": {"configMap": {"name": "train-me-abc123-code"}},
                "env": [{"name": "SEED", "value": "7"}],
            },
            "expectedRuntime": "1h",
            "checkpoint": {"path": "s3://runs/a"},
        },
    }
    assert code == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "train-me-abc123-code", "namespace": "team-a"},
        "immutable": True,
        "data": {"train-me.py": "print('hello')\n"},
    }


def test_a_program_of_the_image_needs_no_files() -> None:
    job, code = JobRequest(command=["python", "-m", "torch.utils.collect_env"], queue="own").documents("n", "q", "1")
    assert (job["metadata"]["name"], job["spec"]["queue"], code) == ("torch-utils-1", "own", None)


@pytest.mark.parametrize("version", ["cotenant.dev/v1beta1", "cotenant.dev/v1alpha1"])
def test_a_manifest_is_sent_in_the_present_version(version: str) -> None:
    spec = {"queue": "q", "gpu": {"count": 1}, "runtime": {"command": ["true"]}}
    manifest = {"apiVersion": version, "kind": "TrainingJob", "metadata": {"name": "m"}, "spec": spec}
    assert of_manifest(manifest, "n")["apiVersion"] == "cotenant.dev/v1beta1"


def test_each_problem_names_its_field_and_nothing_is_sent(script: Path) -> None:
    with pytest.raises(InvalidJobError) as refused:
        JobRequest(script, workers=0, max_runtime="soon").documents("team-a", "q", "1")
    fields = {one.partition(":")[0] for one in refused.value.problems}
    assert fields == {"spec.workers", "spec.maxRuntime"}


@pytest.mark.parametrize(
    ("job", "says"),
    [
        (JobRequest(), "give either script="),
        (JobRequest("a.py", command=["b"]), "a.py"),
        (JobRequest("/nowhere/train.py"), "/nowhere/train.py"),
        (JobRequest(command=["x"], gpu="half a GPU"), "gpu"),
    ],
)
def test_a_description_that_makes_no_sense_is_refused(job: JobRequest, says: str) -> None:
    with pytest.raises(InvalidJobError) as refused:
        job.documents("n", "q", "1")
    assert says in str(refused.value)


def test_a_folder_travels_whole_and_its_script_is_found_in_it(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "train.py").write_text("print(1)")
    (tmp_path / "model.py").write_text("")
    (tmp_path / ".cotenantignore").write_text("data")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "big").write_text("x" * 2_000_000)
    job, code = JobRequest("pkg/train.py", folder=tmp_path, args=[1], name="one").documents("n", "q", "1")
    assert job["spec"]["runtime"]["command"] == ["python", "_start.py", "pkg/train.py", "1"]
    assert code is not None
    assert (sorted(code["data"]), sorted(code["binaryData"])) == (["_start.py"], ["_folder.zip"])


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"folder": "nowhere"}, "is no folder"),
        ({"folder": ".", "script": "absent.py"}, "there is no absent.py in what travels"),
        ({"folder": ".", "script": "/etc/hostname"}, "is not in the folder that travels"),
        ({"folder": ".", "files": ["a"]}, "either folder, which travels whole, or files"),
    ],
)
def test_a_folder_without_the_script_is_refused(
    given: dict[str, Any], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidJobError, match=says):
        JobRequest(**({"script": "train.py"} | given)).documents("n", "q", "1")


def test_files_that_do_not_fit_are_refused_before_anything_is_sent(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for path in (tmp_path / "train.py", tmp_path / "a" / "train.py"):
        path.write_text("")
    (tmp_path / "data.txt").write_text("x" * 1_000_000)
    with pytest.raises(InvalidJobError, match="two files are called"):
        JobRequest(tmp_path / "train.py", files=[tmp_path / "a" / "train.py"]).documents("n", "q", "1")
    with pytest.raises(InvalidJobError, match="put it on a volume"):
        JobRequest(tmp_path / "train.py", files=[tmp_path / "data.txt"]).documents("n", "q", "1")


def test_what_a_job_with_a_profile_leaves_out_is_the_profiles() -> None:
    job, _ = JobRequest(command=["python", "-V"], name="one", profile="small").documents("team-a", "vision", "x")
    assert {"workers", "gpu", "resources"}.isdisjoint(job["spec"])
    assert job["spec"]["profile"] == "small"
    job, _ = JobRequest(command=["python", "-V"], name="one", profile="small", gpu="1/2", workers=2).documents(
        "team-a", "vision", "x"
    )
    assert (job["spec"]["workers"], job["spec"]["gpu"]) == (2, {"memoryFraction": "0.5"})
    job, _ = JobRequest(command=["python", "-V"], name="one").documents("team-a", "vision", "x")
    assert (job["spec"]["workers"], job["spec"]["gpu"]) == (1, {"count": 1})
