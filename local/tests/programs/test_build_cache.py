"""What is built once: whole or not at all, by one builder at a time, under the hash of what it is made of."""

import errno
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from cotenant_local.host.errors import LocalError
from cotenant_local.host.progress import Progress
from cotenant_local.programs import build, build_cache


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "cotenant"


def test_a_build_that_fails_leaves_nothing_and_the_next_one_succeeds(cache: Path) -> None:
    def broken(folder: Path, progress: Progress) -> None:
        (folder / "half").touch()
        raise LocalError("the compiler is unhappy")

    with pytest.raises(LocalError, match="the compiler is unhappy"):
        build_cache.once("thing", "key", broken)
    assert [entry.name for entry in cache.iterdir()] == ["thing.lock"]
    made = build_cache.once("thing", "key", lambda folder, _: (folder / "whole").touch())
    assert [entry.name for entry in made.iterdir()] == ["whole"]


BUILDER = """
    import sys, time
    from pathlib import Path
    from cotenant_local.programs import build, build_cache

    def make(folder, progress):
        (folder / "made-by").write_text(sys.argv[1])
        with Path(sys.argv[2]).open("a") as log:
            log.write("made\\n")
        print("building", flush=True)
        sys.stdin.read()

    print((build_cache.once("thing", "key", make) / "made-by").read_text(), flush=True)
"""


def builder(name: str, log: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", textwrap.dedent(BUILDER), name, str(log)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_two_builders_at_once_build_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with builder("one", log) as one:
        assert one.stdout is not None
        assert one.stdout.readline() == "building\n"
        with builder("two", log) as two:
            assert two.stderr is not None
            assert "another process is building" in two.stderr.readline()
            first, _ = one.communicate()
            second, _ = two.communicate()
    assert (first, second) == ("one\n", "one\n")
    assert log.read_text() == "made\n"


def test_a_builder_that_is_killed_leaves_nothing_that_looks_done(tmp_path: Path, cache: Path) -> None:
    with builder("killed", tmp_path / "log") as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == "building\n"
        killed.kill()
    assert not (cache / "thing-key").exists()
    made = build_cache.once("thing", "key", lambda folder, _: (folder / "whole").touch())
    assert sorted(entry.name for entry in cache.iterdir()) == ["thing-key", "thing.lock"]
    assert (made / "whole").exists()


def test_a_full_disk_is_named_and_nothing_half_made_stays(cache: Path) -> None:
    def fill(folder: Path, progress: Progress) -> None:
        (folder / "half").touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(LocalError, match=rf"a disk is full \({cache} has (.|\n)*or set XDG_CACHE_HOME"):
        build_cache.once("thing", "key", fill)
    assert [entry.name for entry in cache.iterdir()] == ["thing.lock"]


def test_a_full_disk_that_a_program_met_is_named_with_its_words(cache: Path) -> None:
    def fill(folder: Path, progress: Progress) -> None:
        with pytest.raises(OSError, match="No space left") as full, Path("/dev/full").open("w") as file:
            file.write("more")
        build._run(["sh", "-c", f"echo 'write half: {str(full.value.strerror).lower()}' >&2; exit 1"], folder, {})

    with pytest.raises(LocalError, match=r"a disk is full (.|\n)*write half: no space left on device"):
        build_cache.once("thing", "key", fill)
    assert [entry.name for entry in cache.iterdir()] == ["thing.lock"]


def test_a_cache_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(LocalError, match=r"cannot be written .*; set XDG_CACHE_HOME"):
        build_cache.once("thing", "key", lambda folder, _: None)
