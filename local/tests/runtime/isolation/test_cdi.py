"""CDI: edits of devices, once, in order, or refused."""

import json
import re
from pathlib import Path

import pytest

from cotenant_local.runtime.isolation import cdi


def write_spec(path: Path, kind: str, *names: str, **common: object) -> None:
    devices = [{"name": name, "containerEdits": {"env": [f"DEVICE={name}"]}} for name in names]
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"cdiVersion": "0.6.0", "kind": kind, "devices": devices, "containerEdits": common}))


def test_common_edits_apply_once_and_a_later_folder_wins(tmp_path: Path) -> None:
    write_spec(tmp_path / "etc" / "a.json", "x.com/gpu", "0", "1", env=["FROM=etc"], deviceNodes=[{"path": "/dev/c"}])
    got = cdi.edits(["x.com/gpu=0", "x.com/gpu=1"], [tmp_path / "etc", tmp_path / "none"])
    assert (got.env, got.devices) == ({"FROM": "etc", "DEVICE": "1"}, [{"source": "/dev/c", "target": "/dev/c"}])
    write_spec(tmp_path / "run" / "a.json", "x.com/gpu", "0", env=["FROM=run"])
    assert cdi.edits(["x.com/gpu=0"], [tmp_path / "etc", tmp_path / "run"]).env["FROM"] == "run"


@pytest.mark.parametrize(
    ("common", "message"),
    [
        ({"hooks": [{"path": "/bin/x", "args": ["x"]}]}, "hook /bin/x ['x'] cannot be run"),
        ({"netDevices": [{"name": "a"}]}, "netDevices is not provided"),
        ({"mounts": [{"hostPath": "a", "containerPath": "/b", "type": "tmpfs"}]}, "mount /b of type tmpfs"),
    ],
)
def test_edits_that_cannot_be_applied_are_refused(tmp_path: Path, common: dict[str, object], message: str) -> None:
    write_spec(tmp_path / "etc" / "a.json", "x.com/gpu", "0", **common)
    with pytest.raises(cdi.CdiError, match=re.escape(message)):
        cdi.edits(["x.com/gpu=0"], [tmp_path / "etc"])


def test_the_same_device_twice_in_one_folder_is_refused_and_broken_specs_are_left_out(tmp_path: Path) -> None:
    write_spec(tmp_path / "etc" / "a.json", "x.com/gpu", "0")
    (tmp_path / "etc" / "broken.json").write_text("{")
    assert cdi.edits(["x.com/gpu=0"], [tmp_path / "etc"]).env == {"DEVICE": "0"}
    write_spec(tmp_path / "etc" / "b.json", "x.com/gpu", "0")
    with pytest.raises(cdi.CdiError, match=re.escape("CDI devices x.com/gpu=0 are in two specs")):
        cdi.edits(["x.com/gpu=0"], [tmp_path / "etc"])
