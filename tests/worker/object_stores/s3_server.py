"""An S3 server on this machine. Its packages are installed in a folder of their own, because they conflict with the
operator's.
"""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

from tests.support.pod_sandbox import CHECKOUT, until

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "cotenant"
_SIGNED = "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=x"
"""The server looks at who asks, not at the signature; without one it refuses."""
_HEADERS = {"Authorization": _SIGNED, "Content-Type": "application/octet-stream"}


@contextmanager
def s3_server() -> Iterator[str]:
    """Address of the server."""
    packages = installed_apart(CHECKOUT / "requirements" / "s3-server.txt")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    env = {**os.environ, "PYTHONPATH": str(packages)}
    serve = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(serve, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        until(lambda: urlopen(f"{address}/moto-api/", timeout=60).status == 200, 60, "the S3 server answers")
        yield address
    finally:
        server.kill()
        server.wait()


def installed_apart(requirements: Path) -> Path:
    """A folder with these packages, made once for each content of the file."""
    target = CACHE / f"s3-server-{hashlib.sha256(requirements.read_bytes()).hexdigest()[:16]}"
    if not target.is_dir():
        aside = target.with_suffix(f".{os.getpid()}")
        install = [sys.executable, "-m", "uv", "pip", "install", "-q", "--require-hashes", "--target", str(aside)]
        subprocess.run([*install, "-r", str(requirements)], check=True)
        aside.rename(target)
    return target


def emptied(server: str) -> None:
    """One empty bucket, `runs`."""
    urlopen(Request(f"{server}/moto-api/reset", method="POST"), timeout=60).close()
    urlopen(Request(f"{server}/runs", method="PUT"), timeout=60).close()


def put(server: str, key: str, content: bytes) -> None:
    """An object of the bucket, under a key that need not be a path."""
    request = Request(f"{server}/runs/{key}", data=content, method="PUT", headers=_HEADERS)
    urlopen(request, timeout=60).close()


def environment(server: str) -> dict[str, str]:
    """Variables by which a job reaches the server, as it reaches MinIO."""
    return {"AWS_ENDPOINT_URL": server, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
