"""The built programs as one file: what is packed is what is taken, and nothing else is."""

import hashlib
import http.server
import io
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cotenant_local.host.errors import LocalError
from cotenant_local.host.progress import Progress
from cotenant_local.programs import build, package


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "first"))
    monkeypatch.setattr(build, "programs_key", lambda: "0123")
    monkeypatch.setattr(build, "make_programs", compiled)
    monkeypatch.setattr(build, "stubs_path", lambda: stubs(tmp_path / "stubs"))
    return tmp_path / "second" / "cotenant"


def compiled(folder: Path, progress: Progress) -> None:
    (folder / "controlplane").write_bytes(b"\x7fELF")
    (folder / "controlplane").chmod(0o755)


def stubs(folder: Path) -> Path:
    (folder / "cotenant_cri").mkdir(parents=True, exist_ok=True)
    for name in ("api.proto", "api_pb2.py"):
        (folder / "cotenant_cri" / name).write_text("syntax")
    return folder


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package, on a machine that has built nothing."""
    written = package.write(tmp_path / "dist")
    monkeypatch.setattr(build, "make_programs", lambda *_: pytest.fail("it compiles"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "second"))
    return written


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mode & 0o777) for path in files}


def test_what_is_packed_is_what_another_machine_has_and_it_compiles_nothing(packed: Path, cache: Path) -> None:
    taken = package.read(str(packed))
    assert taken == cache / "programs-0123" == build.programs()
    assert contents(taken) == {"controlplane": (b"\x7fELF", 0o755), "cotenant_cri/api.proto": (b"syntax", 0o644)}


def test_the_same_programs_are_the_same_bytes_with_the_checksum_that_sha256sum_reads(
    packed: Path, tmp_path: Path
) -> None:
    package.read(str(packed))
    again = package.write(tmp_path / "again")
    assert again.read_bytes() == packed.read_bytes()
    digest = hashlib.sha256(packed.read_bytes()).hexdigest()
    assert packed.with_name(packed.name + ".sha256").read_text() == f"{digest}  {packed.name}\n"


@pytest.fixture
def address(packed: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    def handler(*arguments: object) -> Quiet:
        return Quiet(*arguments, directory=str(packed.parent))  # type: ignore[arg-type]

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/{packed.name}"
        server.shutdown()


def test_it_comes_from_a_url_too(address: str, cache: Path) -> None:
    assert package.read(address) == cache / "programs-0123"


def test_another_checksum_than_the_one_that_was_told_leaves_nothing(packed: Path, cache: Path) -> None:
    with pytest.raises(LocalError, match=r"its SHA-256 is [0-9a-f]{64}, and should be 0{64}. Nothing of it is used"):
        package.read(str(packed), "0" * 64)
    assert [entry.name for entry in cache.iterdir()] == ["programs.lock"]
    assert package.read(str(packed), hashlib.sha256(packed.read_bytes()).hexdigest().upper())


def test_a_package_that_was_changed_on_its_way_leaves_nothing(packed: Path, cache: Path) -> None:
    packed.write_bytes(packed.read_bytes()[:-1] + b"!")
    with pytest.raises(LocalError, match="Nothing of it is used"):
        package.read(str(packed))
    assert [entry.name for entry in cache.iterdir()] == ["programs.lock"]


def test_without_a_checksum_nothing_is_taken(packed: Path) -> None:
    packed.with_name(packed.name + ".sha256").unlink()
    with pytest.raises(LocalError, match=r"cannot be read: No such file .*\. Say the checksum .* --sha256 HEX"):
        package.read(str(packed))
    packed.with_name(packed.name + ".sha256").write_text("<html>not found</html>")
    with pytest.raises(LocalError, match="does not begin with a SHA-256"):
        package.read(str(packed))


def test_a_package_of_other_sources_is_refused_with_the_one_that_is_needed(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "programs_key", lambda: "4567")
    with pytest.raises(LocalError, match=r"has programs-0123, and .* needs programs-4567: .*cotenant local build"):
        package.read(str(packed))


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("programs-0123/../../escaped", tarfile.REGTYPE, "is not a file of a package"),
        ("/programs-0123/escaped", tarfile.REGTYPE, "has /, and"),
        ("programs-0123", tarfile.REGTYPE, "is not a file of a package"),
        ("programs-0123/link", tarfile.SYMTYPE, "is not a file of a package"),
        ("programs-0123/device", tarfile.CHRTYPE, "is not a file of a package"),
    ],
)
def test_what_would_leave_the_folder_or_is_no_file_is_refused_whatever_its_checksum(
    tmp_path: Path, name: str, kind: bytes, said: str
) -> None:
    member = tarfile.TarInfo(name)
    member.type = kind
    hostile = tmp_path / "hostile.tar.gz"
    with tarfile.open(hostile, "w:gz") as archive:
        archive.addfile(member, io.BytesIO(b""))
    with pytest.raises(LocalError, match=said):
        package.read(str(hostile), hashlib.sha256(hostile.read_bytes()).hexdigest())
    assert [entry.name for entry in (tmp_path / "first" / "cotenant").iterdir()] == ["programs.lock"]
    assert not (tmp_path / "first" / "escaped").exists()


@pytest.mark.parametrize("content", [b"", b"plain", b"\x1f\x8b\x08\x00cut"])
def test_what_is_no_archive_is_named(tmp_path: Path, content: bytes) -> None:
    other = tmp_path / "other.tar.gz"
    other.write_bytes(content)
    with pytest.raises(LocalError, match="is not a package of programs"):
        package.read(str(other), hashlib.sha256(content).hexdigest())


def test_an_address_that_does_not_answer_is_named() -> None:
    with pytest.raises(LocalError, match=r"http://127\.0\.0\.1:1/none cannot be read: .*refused"):
        package.read("http://127.0.0.1:1/none", "0" * 64)
