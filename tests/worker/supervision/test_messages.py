"""The shim and the launcher speak the same lines, although neither imports the other."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

import cotenant_worker
from cotenant_worker.hook.cotenant_shim.heartbeat import heartbeat
from cotenant_worker.supervision.hangs import RankHeartbeat
from cotenant_worker.supervision.messages import MESSAGES, Message

PACKAGE = Path(cotenant_worker.__file__).parent
ADDED_BY_THE_CLIENT = {"rank"}
SPREAD = {"heartbeat"}
"""Its fields are made elsewhere; another test decodes a whole one."""


def written() -> Iterator[tuple[str, str, set[str], bool]]:
    """(file:line, op, fields, true if others are added by `**`) of every message that is written as a dict."""
    for path in [*sorted((PACKAGE / "hook" / "cotenant_shim").glob("*.py")), PACKAGE / "reporting.py"]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Dict):
                keys = [key.value if isinstance(key, ast.Constant) else None for key in node.keys]
                if "op" in keys:
                    op = node.values[keys.index("op")]
                    assert isinstance(op, ast.Constant)
                    names = {str(key) for key in keys if key not in (None, "op")}
                    yield f"{path.name}:{node.lineno}", str(op.value), names, None in keys


@pytest.mark.parametrize(("where", "op", "names", "spread"), list(written()))
def test_every_message_that_the_shim_writes_is_one_that_the_launcher_knows(
    where: str, op: str, names: set[str], spread: bool
) -> None:
    known = MESSAGES.types[op]
    all_fields = {each.name for each in fields(known)}
    required = {each.name for each in fields(known) if each.default is MISSING and each.default_factory is MISSING}
    assert names <= all_fields, where
    assert spread == (op in SPREAD), where
    assert spread or required <= names | ADDED_BY_THE_CLIENT, where


def test_the_messages_of_the_shim_are_found() -> None:
    assert {op for _, op, _, _ in written()} == {
        *("hello", "heartbeat", "phase", "report", "results", "saving", "saved"),
        *("preflight", "collective", "visible-gpus", "memory", "warning"),
    }


def test_the_heartbeat_of_a_rank_is_decoded() -> None:
    line = json.dumps({"op": "heartbeat", **heartbeat._beat(7)})
    found: Message = MESSAGES.decode(line.encode())
    assert isinstance(found, RankHeartbeat)
    assert (found.rank, found.sequence, found.in_rendezvous, found.loop_count) == (0, 7, False, 0)
