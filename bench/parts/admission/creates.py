"""Creates many copies of an object as fast as the API server takes them, by a program in Go.

A client in Python is slower than the API server. The program needs only Go's standard library.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cotenant.controller.client.credentials import authorization, load_configuration
from cotenant.controller.client.kube import Resource
from cotenant_local.host import folders
from cotenant_local.programs import go_toolchain

SOURCE = Path(__file__).with_suffix(".go")


def build() -> Path:
    """The program, built once for each version of its source."""
    key = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    program = folders.cache() / "bench" / f"creates-{key}"
    if not program.exists():
        toolchain = go_toolchain.find(folders.cache(), print)
        program.parent.mkdir(parents=True, exist_ok=True)
        command = [str(toolchain.program), "build", "-o", str(program), str(SOURCE)]
        subprocess.run(command, check=True, env=toolchain.environment)
    return program


async def create_copies(
    kubeconfig: str, resource: Resource, document: Mapping[str, Any], prefix: str, count: int
) -> float:
    """Create `<prefix>0`, `<prefix>1` …; seconds until all are created."""
    configuration = load_configuration(kubeconfig)
    namespace = document["metadata"].get("namespace", "")
    bearer = authorization(configuration).get("Authorization", "").removeprefix("Bearer ")
    given = {
        "url": configuration.host + resource.path(namespace),
        "ca": configuration.ssl_ca_cert,
        "cert": configuration.cert_file,
        "key": configuration.key_file,
        "token": bearer,
        "prefix": prefix,
        "count": count,
    }
    flags = [f"-{name}={value}" for name, value in given.items() if value]
    process = await asyncio.create_subprocess_exec(
        str(build()), *flags, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate(json.dumps(document).encode())
    if process.returncode:
        raise SystemExit("the creates have failed")
    result = json.loads(said)
    if result["refused"]:
        raise SystemExit(f"{result['refused']} of {count} creates were refused, the first: {result['first']}")
    return float(result["seconds"])
