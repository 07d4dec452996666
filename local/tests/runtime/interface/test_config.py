"""The configuration of a node's runtime."""

import json
import re
from pathlib import Path

import pytest

from cotenant_local.runtime.interface import config

CONFIG = {
    "node": "n",
    "socket": "/run/x.sock",
    "state_dir": "/var/x",
    "pod_cidr": "10.0.0.0/24",
    "node_address": "10.1.0.1",
    "catalogue": "/x.json",
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"color": "red"}, "unknown fields ['color']"),
        ({"node": None}, "missing fields ['node']"),
        ({"pod_cidr": "10.0.0.0/99"}, "'10.0.0.0/99' does not appear to be an IPv4 or IPv6 network"),
        ({"node_address": "here"}, "'here' does not appear to be an IPv4 or IPv6 address"),
    ],
)
def test_a_configuration_that_cannot_be_used_names_the_field(
    tmp_path: Path, change: dict[str, str | None], message: str
) -> None:
    path = tmp_path / "cri.json"
    path.write_text(json.dumps({key: value for key, value in {**CONFIG, **change}.items() if value is not None}))
    with pytest.raises(config.ConfigError, match=re.escape(message)):
        config.load(path)


def test_a_configuration_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "cri.json"
    path.write_text(json.dumps(CONFIG))
    first = config.load(path)
    path.write_text(config.dump(first))
    assert config.load(path) == first
