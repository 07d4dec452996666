"""Mirrors a kind of API objects in a thread: list, then watch, again after every break. Standard library only.

The credentials are those of a kubeconfig with everything inside, as the local cluster writes them.
"""

import base64
import http.client
import json
import logging
import os
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)
RETRY_PAUSE_S = 1.0
WATCH_TIMEOUT_S = 300
Objects = dict[str, dict[str, Any]]


class Server:
    """Where the API is, and who asks."""

    def __init__(self, kubeconfig: Path) -> None:
        document = json.loads(kubeconfig.read_text())
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self.tls = ssl.create_default_context(cadata=authority)
        pair = [base64.b64decode(user[name]) for name in ("client-certificate-data", "client-key-data")]
        fd = os.memfd_create("client")  # the library reads certificates from files only
        try:
            os.write(fd, b"\n".join(pair))
            self.tls.load_cert_chain(f"/proc/self/fd/{fd}")
        finally:
            os.close(fd)
        self.address = urllib.parse.urlsplit(cluster["server"])

    def get(self, path: str, timeout: float) -> http.client.HTTPResponse:
        """An open answer; raises OSError, also for a refusal."""
        connection = http.client.HTTPSConnection(
            self.address.hostname or "", self.address.port, context=self.tls, timeout=timeout
        )
        connection.request("GET", path)
        answer = connection.getresponse()
        if answer.status != 200:
            raise OSError(f"GET {path}: {answer.status} {answer.reason}")
        return answer


class Informer:
    """All objects of one kind by uid. `changed` is called from the mirror's thread, also after the first list."""

    def __init__(self, server: Server, path: str, changed: Callable[[], None]) -> None:
        self.server = server
        self.path = path
        self.on_change = changed
        self.objects: Objects = {}
        self.synced = threading.Event()
        """Set once the first list is there."""

    def start(self) -> None:
        threading.Thread(target=self._run, name=f"watch {self.path}", daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                self._watch(self._list())
            except (OSError, ValueError, http.client.HTTPException) as error:
                log.info("watch of %s: %s", self.path, error)
                time.sleep(RETRY_PAUSE_S)

    def _list(self) -> str:
        with self.server.get(self.path, timeout=30) as answer:
            document = json.load(answer)
        self.objects = {item["metadata"]["uid"]: item for item in document["items"]}
        self.synced.set()
        self.on_change()
        return str(document["metadata"]["resourceVersion"])

    def _watch(self, version: str) -> None:
        """Until the server ends the watch or says that `version` is too old (then the caller lists again)."""
        path = (
            f"{self.path}?watch=1&allowWatchBookmarks=true&timeoutSeconds={WATCH_TIMEOUT_S}&resourceVersion={version}"
        )
        with self.server.get(path, timeout=WATCH_TIMEOUT_S + 30) as answer:
            for line in answer:
                event = json.loads(line)
                item = event["object"]
                if event["type"] == "ERROR":
                    raise OSError(item.get("message", "the watch ended"))
                if event["type"] == "BOOKMARK":
                    continue
                # A fresh dictionary each time: the reader's thread may be in the middle of the old one.
                uid = item["metadata"]["uid"]
                rest = {key: value for key, value in self.objects.items() if key != uid}
                self.objects = rest if event["type"] == "DELETED" else {**rest, uid: item}
                self.on_change()
