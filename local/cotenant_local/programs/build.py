"""What is built once and kept: the control plane's programs and the Python stubs of the kubelet's gRPC interfaces.

Called by `lifecycle` (before a cluster starts), by the runtime and by tests. Everything lands in the cache under the
hash of what it is built from, by an atomic rename, under a lock; an interrupted build leaves nothing that looks done.

`programs()` returns the folder with `controlplane` (every component, kubectl and Helm: the first argument chooses),
`forward` and `apifaults`; `oldest()` the one with `oldest`: the control plane of the oldest Kubernetes that Cotenant
promises to run on, for tests. `stubs_path()` returns a folder for sys.path with two packages:
`cotenant_cri.api_pb2`/`api_pb2_grpc` (CRI v1) and `cotenant_device_plugin.api_pb2`/`api_pb2_grpc` (device plugins
v1beta1). `kwok()` is for the benchmark only.
"""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from cotenant_local.host import folders
from cotenant_local.host.errors import LocalError
from cotenant_local.host.progress import Progress
from cotenant_local.programs import go_toolchain

KWOK = "sigs.k8s.io/kwok/cmd/kwok@v0.8.0"
PACKAGES = (".", "./forward", "./apifaults")
HELM_VERSION = "v4.1.4"
PROTOS = {
    "cotenant_cri": ("k8s.io/cri-api", "pkg/apis/runtime/v1/api.proto"),
    "cotenant_device_plugin": ("k8s.io/kubelet", "pkg/apis/deviceplugin/v1beta1/api.proto"),
}
FULL = (errno.ENOSPC, errno.EDQUOT)
FULL_LINES = 3
BUILD_MIB = 3500
"""Of the first build: Go itself, the modules, what is compiled of them."""
KEEP_S = 30 * 24 * 3600
"""Builds that nobody used for this long are removed by the next build."""


def programs() -> Path:
    helm = f"-X helm.sh/helm/v4/internal/version.version={HELM_VERSION}"
    return _go_programs("programs", folders.controlplane_source(), PACKAGES, what=", CoreDNS and Helm", flags=(helm,))


def oldest() -> Path:
    return _go_programs("oldest", folders.oldest_source(), (".",), what="'s control plane")


def _go_programs(kind: str, source: Path, packages: tuple[str, ...], *, what: str, flags: tuple[str, ...] = ()) -> Path:
    files = sorted(f for f in source.rglob("*") if f.suffix in {".go", ".mod", ".sum"})
    version = _kubernetes_version(source)
    linker = [
        "-s -w",  # no debug tables: a third smaller
        # Tools parse the server's version, and the default is a template.
        *(f"-X k8s.io/{p}/version.gitVersion={version}" for p in ("component-base", "client-go/pkg")),
        *flags,
    ]
    contents = [part for f in files for part in (str(f.relative_to(source)).encode(), f.read_bytes())]
    key = _digest(*contents, *(flag.encode() for flag in linker))

    def make(folder: Path, progress: Progress) -> None:
        toolchain = go_toolchain.find(folders.cache(), progress.log)
        command = ["build", "-v", "-trimpath", "-buildvcs=false", "-ldflags", " ".join(linker), "-o", f"{folder}/"]
        progress.log(f"building Kubernetes {version}{what} with Go {toolchain.version} (once)")
        _go_build(toolchain, command, packages, source, progress)

    return _once(kind, key, make)


def stubs_path() -> Path:
    source = folders.controlplane_source()
    key = _digest((source / "go.mod").read_bytes(), repr(PROTOS).encode(), _tools_version().encode())

    def make(folder: Path, progress: Progress) -> None:
        from grpc_tools import protoc

        toolchain = go_toolchain.find(folders.cache(), progress.log)
        modules = sorted({module for module, _ in PROTOS.values()})
        progress.log(f"compiling the interfaces of {' and '.join(modules)}")
        found = _run([toolchain.program, "mod", "download", "-json", *modules], source, toolchain.environment)
        where = {entry["Path"]: Path(entry["Dir"]) for entry in _json_stream(found)}
        for package, (module, path) in PROTOS.items():
            # Both files are called api.proto: a folder of their own keeps them apart in the descriptor pool.
            (folder / package).mkdir()
            (folder / package / "__init__.py").touch()
            shutil.copyfile(where[module] / path, folder / package / "api.proto")
            outputs = [f"--python_out={folder}", f"--grpc_python_out={folder}", f"--pyi_out={folder}"]
            if protoc.main(["protoc", f"-I{folder}", *outputs, f"{package}/api.proto"]):
                raise LocalError(f"grpc_tools could not compile {where[module] / path}.")

    return _once("stubs", key, make)


def kwok() -> Path:
    def make(folder: Path, progress: Progress) -> None:
        toolchain = go_toolchain.find(folders.cache(), progress.log)
        progress.log(f"building {KWOK}")
        environment = {**toolchain.environment, "GOBIN": str(folder), "GOFLAGS": ""}
        _run([toolchain.program, "install", "-trimpath", KWOK], folder, environment)

    return _once("kwok", _digest(KWOK.encode()), make) / "kwok"


def _digest(*parts: bytes) -> str:
    machine = platform.machine().encode()
    return hashlib.sha256(b"\0".join([machine, *parts])).hexdigest()[:16]


def _tools_version() -> str:
    from importlib.metadata import version

    return version("grpcio-tools")


def _once(kind: str, key: str, make: Callable[[Path, Progress], None]) -> Path:
    final = folders.cache() / f"{kind}-{key}"
    if _use(final):
        return final
    progress = Progress(sys.stderr)
    with _lock(kind, progress):
        if _use(final):  # another process built it while this one waited
            return final
        for leftover in final.parent.glob(f"{kind}.unfinished-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        try:
            _make_whole(final, kind, lambda unfinished: make(unfinished, progress))
        except (OSError, LocalError) as error:
            if not _is_full(error):
                raise
            raise LocalError(_disk_full_message(final.parent, error)) from error
        _remove_unused(kind, final)
    return final


def _is_full(error: OSError | LocalError) -> bool:
    """Programs that are called here say it in words."""
    return error.errno in FULL if isinstance(error, OSError) else bool(_disk_full_lines(error))


def _disk_full_lines(error: Exception) -> list[str]:
    words = [os.strerror(number).lower() for number in FULL]
    return [line.strip() for line in str(error).splitlines() if any(word in line.lower() for word in words)]


def _disk_full_message(cache: Path, error: Exception) -> str:
    """Go writes where it is told, and its scratch files to the folder for temporary ones."""
    scratch = Path(tempfile.gettempdir())
    free = ", ".join(f"{folder} has {shutil.disk_usage(folder).free >> 20} MiB left" for folder in (cache, scratch))
    return (
        f"a disk is full ({free}); nothing half-made stays. A first build needs some {BUILD_MIB} MiB. Make room, or "
        "set XDG_CACHE_HOME (and TMPDIR) to folders on another disk. What was said:\n"
        + "\n".join(_disk_full_lines(error)[:FULL_LINES])
    )


def _make_whole(final: Path, kind: str, make: Callable[[Path], None]) -> None:
    unfinished = Path(tempfile.mkdtemp(prefix=f"{kind}.unfinished-", dir=final.parent))
    try:
        make(unfinished)
        unfinished.chmod(0o755)
        unfinished.rename(final)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _use(final: Path) -> bool:
    with contextlib.suppress(PermissionError):  # a cache that somebody else owns is used as it is
        try:
            os.utime(final)
        except (FileNotFoundError, NotADirectoryError):
            return False
    return final.is_dir()


def _remove_unused(kind: str, final: Path) -> None:
    for other in final.parent.glob(f"{kind}-*"):
        if other != final and time.time() - other.stat().st_mtime > KEEP_S:
            shutil.rmtree(other, ignore_errors=True)


@contextlib.contextmanager
def _lock(kind: str, progress: Progress) -> Iterator[None]:
    cache = folders.cache()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        file = (cache / f"{kind}.lock").open("w")
    except OSError as error:
        raise LocalError(f"{cache} cannot be written ({error.strerror}); set XDG_CACHE_HOME.") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.log(f"another process is building in {cache}; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _kubernetes_version(source: Path) -> str:
    for line in (source / "go.mod").read_text().splitlines():
        if line.split()[:1] == ["k8s.io/kubernetes"]:
            return line.split()[1]
    raise LocalError(f"{source / 'go.mod'} does not require k8s.io/kubernetes.")


def _go_build(
    toolchain: go_toolchain.GoToolchain, command: list[str], packages: tuple[str, ...], source: Path, progress: Progress
) -> None:
    listing = _run([toolchain.program, "list", "-deps", *packages], source, toolchain.environment)
    total = len(listing.split())
    process = subprocess.Popen(
        [toolchain.program, *command, *packages],
        cwd=source,
        env=toolchain.environment,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    assert process.stderr is not None
    output: list[str] = []
    try:
        for line in process.stderr:
            output.append(line)
            progress.update(f"compiled {len(output)} of at most {total} packages", detail=line.strip())
    finally:
        if sys.exc_info()[0] is not None:
            process.kill()
        process.wait()
        progress.end()
    if process.returncode:
        raise LocalError(f"go build in {source} failed:\n{''.join(output[-20:]).strip()}")


def _run(command: list[str | Path], folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        raise LocalError(f"{' '.join(map(str, command))} in {folder} failed:\n{said[-4000:]}")
    return done.stdout


def _json_stream(text: str) -> Iterator[dict[str, str]]:
    decoder, position = json.JSONDecoder(), 0
    while text[position:].strip():
        while text[position].isspace():
            position += 1
        value, position = decoder.raw_decode(text, position)
        yield value
