"""Builds the control plane's programs and the Python stubs of the kubelet's gRPC interfaces, once (`build_cache`).

`programs()` returns the folder with `controlplane` (every component, kubectl and Helm: the first argument chooses),
`forward` and `apifaults`; `oldest()` the one with `oldest`: the control plane of the oldest Kubernetes that Cotenant
promises to run on, for tests. `stubs_path()` returns a folder for sys.path with two packages:
`cotenant_cri.api_pb2`/`api_pb2_grpc` (CRI v1) and `cotenant_device_plugin.api_pb2`/`api_pb2_grpc` (device plugins
v1beta1), each with the `api.proto` that it was made of.

Standard library only, except the compiler of the stubs: set-up builds the programs beside the Python environment.
"""

import hashlib
import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cotenant_local.host import folders
from cotenant_local.host.errors import LocalError
from cotenant_local.host.progress import Progress
from cotenant_local.programs import build_cache, go_toolchain

PACKAGES = (".", "./forward", "./apifaults")
HELM = ("-X helm.sh/helm/v4/internal/version.version=v4.1.4",)
"""What the linker is told of Helm: its version, which `go.mod` has too."""
PROGRAMS: Final = "programs"
PROTO: Final = "api.proto"
PROTOS = {
    "cotenant_cri": ("k8s.io/cri-api", "pkg/apis/runtime/v1/api.proto"),
    "cotenant_device_plugin": ("k8s.io/kubelet", "pkg/apis/deviceplugin/v1beta1/api.proto"),
}
INLINED = (
    "std",
    "golang.org/x",
    "google.golang.org",
    "go.etcd.io",
    "github.com/gogo",
    "github.com/google",
    "k8s.io/apimachinery",
    "k8s.io/apiserver",
    "sigs.k8s.io/json",
    "sigs.k8s.io/structured-merge-diff",
)
"""What every request runs through. Elsewhere, in code that is mostly generated, inlining is half of compiling."""
COMPILER = (
    ("all", "-dwarf=false -c=1 -l"),
    *((path if path == "std" else f"{path}/...", "-dwarf=false -c=1") for path in INLINED),
)
"""Package pattern, flags; the last pattern that matches a package counts: no debug tables, which the linker would throw
away, and one thread a package, as there are always more packages to compile than processors (a tenth less work). No
program does another thing for them, so they are in no key."""
COLLECTOR = {"GOGC": "off", "GOMEMLIMIT": "512MiB"}
"""Of the compiler's own memory: a process per package, most of which end long before there is anything to collect."""


def programs() -> Path:
    return build_cache.once(PROGRAMS, programs_key(), make_programs)


def programs_key() -> str:
    """The hash of everything that the programs are built from, and of this machine's architecture."""
    return _key(folders.controlplane_source(), HELM)


def make_programs(folder: Path, progress: Progress) -> None:
    """Compiles them into `folder`."""
    source = folders.controlplane_source()
    toolchain = go_toolchain.find(folders.cache(), progress.log)
    _go_build(toolchain, source, PACKAGES, folder, progress, what=", CoreDNS and Helm", flags=HELM)


def oldest() -> Path:
    source = folders.oldest_source()

    def make(folder: Path, progress: Progress) -> None:
        toolchain = go_toolchain.find(folders.cache(), progress.log)
        _go_build(toolchain, source, (".",), folder, progress, what="'s control plane")

    return build_cache.once("oldest", _key(source), make)


def stubs_path() -> Path:
    source = folders.controlplane_source()
    key = _digest((source / "go.mod").read_bytes(), repr(PROTOS).encode(), _tools_version().encode())

    def make(folder: Path, progress: Progress) -> None:
        from grpc_tools import protoc

        progress.log(f"compiling the interfaces of {' and '.join(module for module, _ in PROTOS.values())}")
        for package, proto in _protos(source, progress).items():
            # Both files are called api.proto: a folder of their own keeps them apart in the descriptor pool.
            (folder / package).mkdir()
            (folder / package / "__init__.py").touch()
            shutil.copyfile(proto, folder / package / PROTO)
            outputs = [f"--python_out={folder}", f"--grpc_python_out={folder}", f"--pyi_out={folder}"]
            if protoc.main(["protoc", f"-I{folder}", *outputs, f"{package}/{PROTO}"]):
                raise LocalError(f"grpc_tools could not compile {proto}.")

    return build_cache.once("stubs", key, make)


def _protos(source: Path, progress: Progress) -> dict[str, Path]:
    """The interfaces that came with packaged programs; else, by Go, those of the modules."""
    packaged = {package: programs() / package / PROTO for package in PROTOS}
    if all(path.is_file() for path in packaged.values()):
        return packaged
    toolchain = go_toolchain.find(folders.cache(), progress.log)
    modules = sorted({module for module, _ in PROTOS.values()})
    found = _run([toolchain.program, "mod", "download", "-json", *modules], source, toolchain.environment)
    where = {entry["Path"]: Path(entry["Dir"]) for entry in _json_stream(found)}
    return {package: where[module] / path for package, (module, path) in PROTOS.items()}


def _key(source: Path, flags: tuple[str, ...] = ()) -> str:
    files = sorted(f for f in source.rglob("*") if f.suffix in {".go", ".mod", ".sum"})
    contents = [part for f in files for part in (str(f.relative_to(source)).encode(), f.read_bytes())]
    return _digest(*contents, *(flag.encode() for flag in _linker(source, flags)))


def _linker(source: Path, flags: tuple[str, ...]) -> list[str]:
    version = _kubernetes_version(source)
    return [
        "-s -w",  # no debug tables: a third smaller
        # Tools parse the server's version, and the default is a template.
        *(f"-X k8s.io/{p}/version.gitVersion={version}" for p in ("component-base", "client-go/pkg")),
        *flags,
    ]


def _digest(*parts: bytes) -> str:
    machine = platform.machine().encode()
    return hashlib.sha256(b"\0".join([machine, *parts])).hexdigest()[:16]


def _tools_version() -> str:
    from importlib.metadata import version

    return version("grpcio-tools")


def _kubernetes_version(source: Path) -> str:
    for line in (source / "go.mod").read_text().splitlines():
        if line.split()[:1] == ["k8s.io/kubernetes"]:
            return line.split()[1]
    raise LocalError(f"{source / 'go.mod'} does not require k8s.io/kubernetes.")


def _go_build(
    toolchain: go_toolchain.GoToolchain,
    source: Path,
    packages: tuple[str, ...],
    folder: Path,
    progress: Progress,
    *,
    what: str,
    flags: tuple[str, ...] = (),
) -> None:
    progress.log(f"building Kubernetes {_kubernetes_version(source)}{what} with Go {toolchain.version} (once)")
    listing = _run([toolchain.program, "list", "-deps", *packages], source, toolchain.environment)
    total = len(listing.split())
    options = [f"-gcflags={pattern}={words}" for pattern, words in COMPILER]
    options += ["-v", "-trimpath", "-buildvcs=false", "-ldflags", " ".join(_linker(source, flags)), "-o", f"{folder}/"]
    process = subprocess.Popen(
        [toolchain.program, "build", *options, *packages],
        cwd=source,
        env={**toolchain.environment, **COLLECTOR},
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
        output = (done.stderr or done.stdout).strip()
        raise LocalError(f"{' '.join(map(str, command))} in {folder} failed:\n{output[-4000:]}")
    return done.stdout


def _json_stream(text: str) -> Iterator[dict[str, str]]:
    decoder, position = json.JSONDecoder(), 0
    while text[position:].strip():
        while text[position].isspace():
            position += 1
        value, position = decoder.raw_decode(text, position)
        yield value
