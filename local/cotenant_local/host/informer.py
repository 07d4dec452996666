"""A cache of one kind of API objects, kept by a thread: list, then watch, again after every break.

client-go's informer without its queue: `on_change` carries no event, the reader takes all objects.
"""

import http.client
import json
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from cotenant_local.host.api_client import Api

log = logging.getLogger(__name__)
RETRY_PAUSE_S: Final = 1.0
WATCH_TIMEOUT_S: Final = 300
ANSWER_TIMEOUT_S: Final = 30
Objects = dict[str, dict[str, Any]]
"""Uid → the object as the API server sent it."""


class Informer:
    """All objects of one kind by uid. `on_change` runs in the informer's thread, also after the first list."""

    def __init__(self, api: Api, path: str, on_change: Callable[[], None]) -> None:
        self.api = api
        self.path = path
        self.on_change = on_change
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
        """Replaces all objects; returns the resourceVersion to watch from."""
        with self.api.stream(self.path, ANSWER_TIMEOUT_S) as answer:
            document = json.load(answer)
        self.objects = {item["metadata"]["uid"]: item for item in document["items"]}
        self.synced.set()
        self.on_change()
        return str(document["metadata"]["resourceVersion"])

    def _watch(self, version: str) -> None:
        """Returns when the server ends the watch; raises OSError when `version` is too old, so that a list follows."""
        path = (
            f"{self.path}?watch=1&allowWatchBookmarks=true&timeoutSeconds={WATCH_TIMEOUT_S}&resourceVersion={version}"
        )
        with self.api.stream(path, WATCH_TIMEOUT_S + ANSWER_TIMEOUT_S) as answer:
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
