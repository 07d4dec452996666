"""The state of a container: what its shim has written decides it."""

from pathlib import Path
from typing import Any

import pytest

from cotenant_local.runtime.containers.container import Container, StateError
from local.tests.runtime.cri_messages import Message


@pytest.mark.usefixtures("cri_numbers")
@pytest.mark.parametrize(
    ("started", "ended", "state", "running"),
    [
        (None, None, 0, False),
        ({"pid": 77}, None, 1, True),
        ({"pid": 77}, {"exit_code": 0}, 2, False),
        (None, {"exit_code": 128}, 2, False),
    ],
    ids=["created", "running", "exited", "never started"],
)
def test_a_container_runs_between_its_two_records(
    started: dict[str, Any] | None, ended: dict[str, Any] | None, state: int, running: bool
) -> None:
    config = Message(metadata=Message(name="main"))
    made = Container("c", Path("/c"), config, "s", "i", 1, 0, 0, [], "", [], started=started, exit=ended)
    assert (made.state, made.running) == (state, running)
    if running:
        assert made.pid == 77
        return
    with pytest.raises(StateError, match=r"^container main \(c\) is not running$"):
        assert made.pid
