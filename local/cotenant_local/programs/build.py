"""Builds the control plane's programs and the Python stubs of the kubelet's gRPC interfaces, once (`build_cache`).

`programs()` returns the folder with `controlplane` (every component, kubectl and Helm: the first argument chooses),
`forward` and `apifaults`; `oldest()` the one with `oldest`: the control plane of the oldest Kubernetes that Cotenant
promises to run on, for tests. `stubs_path()` returns a folder for sys.path with two packages:
`cotenant_cri.api_pb2`/`api_pb2_grpc` (CRI v1) and `cotenant_device_plugin.api_pb2`/`api_pb2_grpc` (device plugins
v1beta1).
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
HELM_VERSION: Final = "v4.1.4"
PROTOS = {
    "cotenant_cri": ("k8s.io/cri-api", "pkg/apis/runtime/v1/api.proto"),
    "cotenant_device_plugin": ("k8s.io/kubelet", "pkg/apis/deviceplugin/v1beta1/api.proto"),
}


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

    return build_cache.once(kind, key, make)


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

    return build_cache.once("stubs", key, make)


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
