"""The plan as a file: what is written is read again, also from an earlier version."""

import json
from pathlib import Path

from cotenant_local.host.cluster_plan import ClusterPlan
from local.tests.plans import cluster_plan


def test_a_plan_is_read_as_it_was_written_by_its_owner_alone(tmp_path: Path) -> None:
    plan = cluster_plan(2, oldest=Path("/old"), forwards=(("default/web:80", 40001),), cgroup_parent="/cg")
    plan.save(tmp_path / "plan.json")
    assert ClusterPlan.load(tmp_path / "plan.json") == plan
    assert (tmp_path / "plan.json").stat().st_mode & 0o777 == 0o600


def test_a_plan_of_an_earlier_version_names_no_old_control_plane(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    cluster_plan().save(file)
    document = json.loads(file.read_text())
    del document["oldest"]
    file.write_text(json.dumps(document))
    assert ClusterPlan.load(file) == cluster_plan()
