"""Logs in the kubelet's format."""

import re
from pathlib import Path

import pytest

from cotenant_local.runtime.inside import logs


@pytest.mark.parametrize(
    ("written", "want"),
    [
        ([b"one\ntwo\n"], ["F one", "F two"]),
        ([b"par", b"tial\n"], ["F partial"]),
        ([b"no end"], ["F no end"]),
        ([b"\n"], ["F "]),
        ([b"x" * logs.LINE_LIMIT_BYTES + b"\n"], ["F " + "x" * logs.LINE_LIMIT_BYTES]),
        ([b"x" * (logs.LINE_LIMIT_BYTES + 1) + b"\n"], ["P " + "x" * logs.LINE_LIMIT_BYTES, "F x"]),
        ([b"x" * (logs.LINE_LIMIT_BYTES + 1)], ["P " + "x" * logs.LINE_LIMIT_BYTES, "F x"]),
    ],
)
def test_lines_are_logged_whole_or_in_parts(tmp_path: Path, written: list[bytes], want: list[str]) -> None:
    log = logs.LogFile(str(tmp_path / "log"))
    for data in written:
        log.write("stdout", data)
    log.finish()
    lines = (tmp_path / "log").read_text().splitlines()
    assert [line.split(" ", 2)[2] for line in lines] == want
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z stdout [FP] x*.*", line) for line in lines)
