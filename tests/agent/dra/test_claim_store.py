"""Prepared claims on disk: whatever moment the agent is killed at, the next one finds whole files that agree."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cotenant_agent.dra.claim_store import ClaimStore
from cotenant_agent.dra.prepared_claims import PreparedClaim

CLAIM = PreparedClaim(namespace="guests", name="c", uid="u", pool="n1", devices=(), pods=("p",))
SPEC: dict[str, Any] = {"kind": "gpu.cotenant.dev/claim"}


class Killed(BaseException):
    """The process is no more."""


def store(folder: Path) -> ClaimStore:
    return ClaimStore(folder / "claims", folder / "cdi")


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_what_is_saved_is_found_again_and_forgotten_twice(tmp_path: Path) -> None:
    store(tmp_path).load()
    store(tmp_path).save(CLAIM, SPEC)
    assert store(tmp_path).load() == {"u": CLAIM}
    assert files(tmp_path) == ["cdi/gpu.cotenant.dev-claim_u.json", "claims/u.json"]
    for _ in range(2):
        store(tmp_path).forget("u")
    assert (store(tmp_path).load(), files(tmp_path)) == ({}, [])


@pytest.mark.parametrize("killed_at", range(8))
def test_a_kill_at_any_step_leaves_the_old_state_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_at: int
) -> None:
    """Steps that touch the disk are counted through, of saving one claim and forgetting another."""
    other = PreparedClaim(namespace="guests", name="d", uid="v", pool="n1", devices=(), pods=())
    store(tmp_path).load()
    store(tmp_path).save(other, SPEC)
    left = [killed_at]

    def step(call: Any) -> Any:
        def counted(*arguments: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return call(*arguments, **options)

        return counted

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", step(Path.rename))
        patched.setattr(Path, "unlink", step(Path.unlink))
        patched.setattr(os, "fsync", step(os.fsync))
        try:
            store(tmp_path).save(CLAIM, SPEC)
            store(tmp_path).forget("v")
        except Killed:
            pass
    after = store(tmp_path)
    found = after.load()
    assert found.keys() in ({"v"}, {"u", "v"}, {"u"})
    for claim in found.values():
        after.write_spec(claim.uid, SPEC)
    after.remove_other_specs(found)
    specs = {path.stem.rpartition("_")[2] for path in (tmp_path / "cdi").glob("*.json")}
    assert specs == set(found)
    after.forget("u")
    after.forget("v")
    assert not list((tmp_path / "cdi").glob("*.json"))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"uid": "another"}', json.dumps({"devices": [1], "pods": []})])
def test_a_file_that_cannot_be_read_is_put_aside_with_its_specification(tmp_path: Path, text: str) -> None:
    store(tmp_path).load()
    store(tmp_path).save(CLAIM, SPEC)
    (tmp_path / "claims" / "u.json").write_text(text)
    assert store(tmp_path).load() == {}
    store(tmp_path).remove_other_specs({})
    assert files(tmp_path) == ["cdi/gpu.cotenant.dev-claim_u.json", "claims/u.unreadable"]


def test_specifications_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "cdi").mkdir()
    (tmp_path / "cdi" / "nvidia.json").write_text("{}")
    store(tmp_path).remove_other_specs({})
    assert files(tmp_path) == ["cdi/nvidia.json"]
