"""A capsule as a file: the same document in the same bytes, and nothing else is taken for one."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest

from cotenant.decision_log import capsule_file
from cotenant.decision_log.capsule_file import FORMAT, checked, packed, unpacked
from cotenant.decision_log.codec import CodecError

DOCUMENT = {"format": FORMAT, "version": 1, "plan": ["Admit ä"]}


def test_equal_documents_are_equal_bytes_and_come_back_packed_or_not() -> None:
    data = packed(DOCUMENT)
    assert data == packed(dict(reversed(DOCUMENT.items())))
    assert json.loads(unpacked(data)) == json.loads(unpacked(json.dumps(DOCUMENT).encode())) == DOCUMENT


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (None, "does not say format"),
        ([], "does not say format"),
        ({"version": 1}, "does not say format"),
        (DOCUMENT | {"version": 2}, "a capsule of version 2; this program reads 1"),
    ],
)
def test_what_is_no_capsule_is_refused_in_words(document: Any, says: str) -> None:
    with pytest.raises(CodecError, match=says):
        checked(document)


def test_of_a_bomb_no_more_is_unpacked_than_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capsule_file, "BYTES_MAX", 10)
    assert unpacked(gzip.compress(bytes(10))) == bytes(10)
    with pytest.raises(ValueError, match="longer than 10 bytes"):
        unpacked(gzip.compress(bytes(11)))


@pytest.mark.parametrize("damage", [lambda data: data[:-12], lambda data: data[:12] + b"????" + data[16:]])
def test_a_damaged_file_is_refused_in_words(damage: Callable[[bytes], bytes]) -> None:
    with pytest.raises(ValueError, match="it is damaged: "):
        unpacked(damage(packed(DOCUMENT)))
