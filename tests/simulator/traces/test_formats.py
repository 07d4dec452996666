"""Files: packed or not, in the layout that they are in."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from cotenant.simulator.traces.formats import layout_of, read_file
from cotenant.simulator.traces.trace import TraceError
from tests.simulator.traces.test_tables import HELIOS, OPENB

PLAIN = "submit,duration,gpus\n0,60,1\n"


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        (PLAIN, "csv"),
        ("\n; SWF\n", "swf"),
        ("1 10 5 50 4 -1 -1 -1 -1 -1 1 -1 1 1 -1 -1 -1.5 -1\n", "swf"),
        ('[\n{"vc": 1}]', "philly"),
        (OPENB, "openb"),
        (HELIOS, "helios"),
    ],
)
def test_the_first_line_tells_the_layout(text: str, layout: str) -> None:
    assert layout_of(text) == layout


def test_a_packed_file_is_the_same_trace(tmp_path: Path) -> None:
    (tmp_path / "plain.csv").write_text(PLAIN, encoding="utf-8")
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress(PLAIN.encode()))
    plain, packed = (read_file(str(tmp_path / name)) for name in ("plain.csv", "packed.csv.gz"))
    assert plain == packed
    assert plain.jobs[0].duration_s == 60.0


def test_a_missing_file_and_one_of_another_format_are_named(tmp_path: Path) -> None:
    other = tmp_path / "other.bin"
    other.write_bytes(b"\x1f\x8bnot gzip")
    for path in (tmp_path / "none.csv", other):
        with pytest.raises(TraceError, match=path.name):
            read_file(str(path))
    plain = tmp_path / "plain.csv"
    plain.write_text(PLAIN, encoding="utf-8")
    with pytest.raises(TraceError, match="SWF"):
        read_file(str(plain), "swf")


@pytest.mark.parametrize(
    "data",
    [gzip.compress(PLAIN.encode())[:12] + b"????????", f"submit,duration,gpus\n0,60,{'1' * 200_000}\n".encode()],
    ids=["a packed file that is damaged", "a field without end"],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "bad").write_bytes(data)
    with pytest.raises(TraceError, match="bad: "):
        read_file(str(tmp_path / "bad"))
