"""`cotenant plugin --package DIR`: writes the kubectl plugin: one file, its archive, the krew manifest, manual pages.

The file is a zipapp of the operator's tree, PyYAML without compiled code and python-socks, so it runs with any Python
≥ 3.11. It does not contain numpy and pydantic. Verbs that decide or check documents themselves need those, and name
another way. Equal sources give equal bytes.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from cotenant import __version__
from cotenant.cli.errors import UserError

PROGRAM: Final = "kubectl-cotenant"
ARCHIVE: Final = f"{PROGRAM}.tar.gz"
MANIFEST: Final = "cotenant.yaml"
HOME: Final = "https://github.com/cotenant/cotenant"
BROUGHT: Final = ("PyYAML", "python-socks")
"""Packages of the environment that the file contains: for kubeconfigs and manifests, and for SOCKS5 proxies."""
MANUAL: Final = "man/man1"
"""Folder of the manual pages within the package; `man -M man` reads it."""
MAIN: Final = """\
import os, sys
if sys.version_info < (3, 11):
    for newer in ["python3.%d" % minor for minor in range(20, 10, -1)]:
        try:
            os.execvp(newer, [newer] + sys.argv)
        except OSError:
            pass
    sys.exit("kubectl cotenant needs Python 3.11 or newer. python3 is %s, and there is no python3.11 or newer on PATH: "
             "install one, or 'pip install cotenant' into an environment of one" % sys.version.split()[0])
from cotenant.cli.main import main
sys.exit(main())
"""
"""What starts the program, in words of old Pythons too: python3 of Ubuntu 22.04 is 3.10, that of macOS is 3.9."""
EPOCH: Final = (1980, 1, 1, 0, 0, 0)


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("plugin", help="write the kubectl plugin and its krew manifest")
    parser.add_argument("--package", type=Path, metavar="DIR", required=True, help="folder for the files")
    parser.add_argument(
        "--uri",
        default=f"{HOME}/releases/download/v{__version__}/{ARCHIVE}",
        help="address at which the archive will be downloaded",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    args.package.mkdir(parents=True, exist_ok=True)
    program = zipapp()
    archive = archived(program)
    manifest = krew_manifest(args.uri, hashlib.sha256(archive).hexdigest())
    for name, body in ((PROGRAM, program), (ARCHIVE, archive), (MANIFEST, manifest.encode())):
        (args.package / name).write_bytes(body)
        print(args.package / name)
    (args.package / PROGRAM).chmod(0o755)
    _write_manual(args.package / MANUAL)
    return 0


def _write_manual(folder: Path) -> None:
    from cotenant.cli.main import build_parser
    from cotenant.cli.reference import manual

    folder.mkdir(parents=True, exist_ok=True)
    for name, text in manual.pages(build_parser()).items():
        (folder / name).write_text(text)
    print(folder)


def zipapp() -> bytes:
    """Write the program as one executable file."""
    files = {"__main__.py": MAIN.encode()}
    root = Path(__file__).parents[1]
    files |= {f"{root.name}/{path.relative_to(root)}": path.read_bytes() for path in root.rglob("*.py")}
    for package in BROUGHT:
        files |= dict(_pure_files(package))
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            archive.writestr(zipfile.ZipInfo(name, EPOCH), files[name], zipfile.ZIP_DEFLATED)
    return b"#!/usr/bin/env python3\n" + body.getvalue()


def archived(program: bytes) -> bytes:
    """Write the archive in the form that krew expects."""
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w") as archive:
        info = tarfile.TarInfo(PROGRAM)
        info.size, info.mode = len(program), 0o755
        archive.addfile(info, io.BytesIO(program))
    return gzip.compress(body.getvalue(), mtime=0)


def krew_manifest(uri: str, sha256: str) -> str:
    import yaml

    systems = [{"key": "os", "operator": "In", "values": ["linux", "darwin"]}]
    platform = {
        "selector": {"matchExpressions": systems}, "uri": uri, "sha256": sha256, "bin": PROGRAM,
        "files": [{"from": PROGRAM, "to": "."}],
    }  # fmt: skip
    manifest = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "cotenant"},
        "spec": {
            "version": f"v{__version__}",
            "homepage": HOME,
            "shortDescription": "Share GPU nodes: why jobs wait, who holds what",
            "description": "Asks the Cotenant operator why a job waits and what would start it, what a change would"
            " do, who holds which GPUs, and acts for tenants and administrators.",
            "caveats": "Needs Python 3.11 or newer, as python3 or python3.N. Completions:"
            " kubectl cotenant completions kubectl",
            "platforms": [platform],
        },
    }
    return yaml.safe_dump(manifest, sort_keys=False, allow_unicode=True)


def _pure_files(name: str) -> Iterator[tuple[str, bytes]]:
    """The files of a distribution that Python can import from a zip."""
    try:
        files = distribution(name).files or ()
    except PackageNotFoundError:
        raise UserError(f"the plugin is packed out of an environment with {name}, which is missing here") from None
    for file in files:
        if file.suffix == ".py" and ".." not in file.parts:
            yield str(file), Path(str(file.locate())).read_bytes()
