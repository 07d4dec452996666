"""Volumes of a job: one source each, and no place that the system or Cotenant uses."""

from typing import Any

import pytest
from pydantic import ValidationError

from cotenant.api.resources.job_spec.volumes import Code, Volume

CLAIM = {"claimName": "data"}


@pytest.mark.parametrize(
    ("path", "free"),
    [
        ("/data", True),
        ("/tmpx", True),
        ("/var/lib", True),
        ("/tmp", False),
        ("/tmp/x", False),
        ("/dev/shm", False),
        ("/var/run/x", False),
        ("/workspace", False),
        ("/checkpoints/a", False),
        ("/", False),
        ("/a/../tmp", False),
        ("data", False),
        ("/data/", False),
    ],
)
def test_a_volume_is_mounted_where_nothing_else_is(path: str, free: bool) -> None:
    document = {"name": "data", "mountPath": path, "emptyDir": {}}
    if free:
        assert Volume.model_validate(document).mount_path == path
        return
    with pytest.raises(ValidationError, match=r"used by Cotenant or by the system|must be an absolute path below /"):
        Volume.model_validate(document)


@pytest.mark.parametrize(
    ("sources", "fits"),
    [
        ({"emptyDir": {"sizeLimit": "1Gi"}}, True),
        ({"persistentVolumeClaim": {**CLAIM, "subPath": "runs/today"}}, True),
        ({"secret": {"secretName": "s"}}, True),
        ({"configMap": {"name": "c"}}, True),
        ({}, False),
        ({"emptyDir": {}, "secret": {"secretName": "s"}}, False),
    ],
    ids=str,
)
def test_a_volume_has_one_source(sources: dict[str, Any], fits: bool) -> None:
    document = {"name": "data", "mountPath": "/data", **sources}
    if fits:
        Volume.model_validate(document)
        return
    with pytest.raises(ValidationError, match="a volume takes exactly one of"):
        Volume.model_validate(document)


@pytest.mark.parametrize("path", ["..", "a/../b", "/a", "a/", ".git", "a//b", ""])
def test_a_folder_of_a_volume_cannot_lead_out_of_it(path: str) -> None:
    with pytest.raises(ValidationError, match=r"must be a relative path without '\.\.'"):
        Code.model_validate({"persistentVolumeClaim": {**CLAIM, "subPath": path}})


@pytest.mark.parametrize("sources", [{}, {"configMap": {"name": "c"}, "persistentVolumeClaim": CLAIM}], ids=str)
def test_code_has_one_source(sources: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="code takes exactly one of configMap and persistentVolumeClaim"):
        Code.model_validate(sources)
