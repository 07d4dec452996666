"""The built programs as one file, so that another machine need not compile: written beside its checksum, and read back.

A package fits one state of the sources and one architecture, which are in its name and in the folder inside it. It is
read only if its SHA-256 is the one that the reader was given, or that lies beside it. Reading takes the
standard library only.
"""

import gzip
import hashlib
import platform
import re
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
from pathlib import Path, PurePosixPath
from typing import Final

from cotenant_local.host.errors import LocalError
from cotenant_local.host.progress import Progress
from cotenant_local.programs import build, build_cache

CHECKSUM: Final = ".sha256"
"""Behind the name of a package: the file that `sha256sum --check` reads."""
TIMEOUT_S: Final = 60
CHUNK_BYTES: Final = 1 << 20


def write(folder: Path) -> Path:
    """Packs the programs into `folder`, after building them if needed. The same programs give the same bytes.

    The interfaces that the stubs are made of are packed too, so the reader of the package needs no Go.
    """
    programs, stubs = build.programs(), build.stubs_path()
    files = {path.relative_to(programs): path for path in programs.rglob("*") if path.is_file()}
    files |= {path.relative_to(stubs): path for path in stubs.rglob(build.PROTO)}
    folder.mkdir(parents=True, exist_ok=True)
    package = folder / f"cotenant-{_name()}-{platform.system().lower()}-{platform.machine()}.tar.gz"
    with (
        package.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as archive,
    ):
        for name, path in sorted(files.items()):
            _add(archive, f"{_name()}/{name}", path)
    checksum = package.with_name(package.name + CHECKSUM)
    checksum.write_text(f"{_sha256(package)}  {package.name}\n")
    return package


def read(source: str, sha256: str | None = None) -> Path:
    """Puts the programs of a package, at a path or an http(s) URL, into the cache; the folder that they are in.

    Raises LocalError for a package that cannot be read, that has another checksum, or that was made of other sources.
    """

    def make(folder: Path, progress: Progress) -> None:
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            progress.log(f"taking the programs from {source}")
            package = _fetch(source, Path(scratch) / "package")
            wanted = sha256 or _checksum_beside(source, Path(scratch) / "checksum")
            if (found := _sha256(package)) != wanted.lower():
                raise LocalError(f"{source}: its SHA-256 is {found}, and should be {wanted}. Nothing of it is used.")
            _unpack(package, source, folder)

    return build_cache.once(build.PROGRAMS, build.programs_key(), make)


def _name() -> str:
    return f"{build.PROGRAMS}-{build.programs_key()}"


def _add(archive: tarfile.TarFile, name: str, path: Path) -> None:
    """Adds a file without owner and time, so that equal content gives equal bytes."""
    member = tarfile.TarInfo(name)
    status = path.stat()
    member.size, member.mode = status.st_size, 0o755 if status.st_mode & 0o100 else 0o644
    with path.open("rb") as file:
        archive.addfile(member, file)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fetch(source: str, target: Path) -> Path:
    try:
        if not source.startswith(("https://", "http://")):
            return Path(shutil.copyfile(source, target))
        with urllib.request.urlopen(source, timeout=TIMEOUT_S) as answer, target.open("wb") as file:
            shutil.copyfileobj(answer, file, CHUNK_BYTES)
    except (OSError, urllib.error.URLError) as error:
        raise LocalError(f"{source} cannot be read: {getattr(error, 'reason', error.strerror) or error}") from error
    return target


def _checksum_beside(source: str, target: Path) -> str:
    try:
        words = _fetch(source + CHECKSUM, target).read_text(errors="replace").split()
    except LocalError as error:
        raise LocalError(f"{error}. Say the checksum that the package should have: --sha256 HEX") from error
    if not words or not re.fullmatch(r"[0-9a-fA-F]{64}", words[0]):
        raise LocalError(f"{source}{CHECKSUM} does not begin with a SHA-256 in hexadecimal digits.")
    return words[0]


def _unpack(package: Path, source: str, folder: Path) -> None:
    try:
        with tarfile.open(package, "r:gz") as archive:
            for member in archive:
                top, *below = PurePosixPath(member.name).parts
                if top != _name():
                    raise LocalError(
                        f"{source} has {top}, and this version of Cotenant on this machine needs {_name()}: take the "
                        "package of the same release and architecture, or build the programs (cotenant local build)."
                    )
                inside = archive.extractfile(member) if member.isfile() else None
                if inside is None or not below or ".." in below:
                    raise LocalError(f"{source}: {member.name} is not a file of a package.")
                target = folder.joinpath(*below)
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("wb") as file:
                    shutil.copyfileobj(inside, file, CHUNK_BYTES)
                target.chmod(0o755 if member.mode & 0o100 else 0o644)
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, ValueError) as error:
        raise LocalError(f"{source} is not a package of programs: {error}") from error
