"""A hold of a queue is a field that tenants cannot write; a hold of a job is a suspension, and says what it is not."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.cli import main
from cotenant.cli.administrators import hold

OURS = "/apis/cotenant.dev/v1beta1"


class Recorded:
    namespace = "red"

    def __init__(self) -> None:
        self.patches: list[tuple[str, Any]] = []

    def patch(self, path: str, body: Any) -> None:
        self.patches.append((path, body))


@pytest.mark.parametrize(
    ("words", "write", "printed"),
    [
        ("hold queue a --reason rebuilt", (f"{OURS}/queues/a", {"hold": "rebuilt"}), "no job of it starts: rebuilt"),
        ("release queue a", (f"{OURS}/queues/a", {"hold": None}), "its jobs start again"),
        ("hold job t", (f"{OURS}/namespaces/red/trainingjobs/t", {"suspend": True}), "its owner can resume it"),
        ("release job b/t", (f"{OURS}/namespaces/b/trainingjobs/t", {"suspend": False}), "b/t: resumed"),
    ],
)
def test_a_hold_is_one_write(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    write: tuple[str, dict[str, Any]],
    printed: str,
) -> None:
    recorded = Recorded()
    monkeypatch.setattr(hold, "connect", lambda _: recorded)
    assert main.main(words.split()) == 0
    assert recorded.patches == [(write[0], {"spec": write[1]})]
    assert printed in capsys.readouterr().out


def test_a_hold_of_a_queue_has_a_reason() -> None:
    with pytest.raises(SystemExit):
        main.main(["hold", "queue", "a"])


@pytest.mark.parametrize(
    ("verb", "said"),
    [("hold", "it saves and leaves; its owner can resume it"), ("release", "one job: it is resumed")],
)
def test_the_help_of_each_says_what_it_does(capsys: pytest.CaptureFixture[str], verb: str, said: str) -> None:
    with pytest.raises(SystemExit):
        main.main([verb, "--help"])
    assert said in " ".join(capsys.readouterr().out.split())
