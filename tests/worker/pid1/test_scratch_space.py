"""How full the scratch volume is, and when that is a warning."""

import os
import threading
from pathlib import Path

from cotenant_worker.pid1.scratch_space import ScratchSpace, used_mib


def test_a_warning_comes_at_80_percent_once_and_is_taken_back_below() -> None:
    told: list[tuple[str, str]] = []
    space = ScratchSpace(10_240, lambda key, text: told.append((key, text)))
    for used in (100, 8191, 8192, 9000, 5000, 100):
        space.check(used)
    assert told == [
        (
            "scratch",
            "/tmp is 80 % full: 8.0 of 10.0 GiB. When it is full, the pod is evicted: ask for more in"
            " resources.scratch, or remove files",
        ),
        ("scratch", ""),
    ]


async def test_a_volume_without_a_limit_is_not_looked_at(tmp_path: Path) -> None:
    await ScratchSpace(0, lambda *_: None, tmp_path / "missing").watch()


def test_files_count_by_what_they_take_and_each_of_them_once(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "model").write_bytes(os.urandom(3 << 20))
    (tmp_path / "again").hardlink_to(tmp_path / "cache" / "model")
    (tmp_path / "link").symlink_to(tmp_path / "cache" / "model")
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(50 << 20)
    os.sync()
    assert used_mib(tmp_path, threading.Event()) == 3


def test_a_look_ends_with_the_pod(tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(os.urandom(3 << 20))
    stopped = threading.Event()
    stopped.set()
    assert used_mib(tmp_path, stopped) == 0
