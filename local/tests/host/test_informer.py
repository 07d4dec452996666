"""The informer: a list, then what the watch brings, and a list again after a break."""

import io
import json
import queue
import threading
from typing import Any

from cotenant_local.host import informer
from cotenant_local.host.informer import Informer


def item(uid: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"uid": uid, "labels": labels}}


def listed(*items: dict[str, Any], version: str) -> bytes:
    return json.dumps({"metadata": {"resourceVersion": version}, "items": items}).encode()


def events(*each: tuple[str, dict[str, Any]]) -> bytes:
    return b"".join(json.dumps({"type": kind, "object": thing}).encode() + b"\n" for kind, thing in each)


class ApiOfAnswers:
    """Gives its answers one after the other, then blocks for ever; keeps what was asked for."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.paths: queue.Queue[str] = queue.Queue()
        self.end = threading.Event()

    def stream(self, path: str, timeout_s: float) -> io.BytesIO:
        self.paths.put(path)
        if not self.answers:
            self.end.set()
            threading.Event().wait()
        return io.BytesIO(self.answers.pop(0))


def followed(api: ApiOfAnswers) -> tuple[Informer, list[str]]:
    """An informer that has taken all answers, and the paths that it asked for, without the last one."""
    made = Informer(api, "/api/v1/pods", lambda: None)  # type: ignore[arg-type]  # its one method is used
    made.start()
    assert api.end.wait(10)
    return made, [api.paths.get_nowait() for _ in range(api.paths.qsize() - 1)]


def test_a_watch_goes_on_where_the_list_ended() -> None:
    changes = events(
        ("ADDED", item("b")), ("BOOKMARK", {}), ("MODIFIED", item("a", tier="web")), ("DELETED", item("b"))
    )
    made, paths = followed(ApiOfAnswers(listed(item("a"), version="7"), changes))
    assert made.synced.is_set()
    assert made.objects == {"a": item("a", tier="web")}
    assert paths[0] == "/api/v1/pods"
    assert paths[1].startswith("/api/v1/pods?watch=1&")
    assert paths[1].endswith("&resourceVersion=7")


def test_what_went_while_nobody_watched_is_gone_after_the_next_list(monkeypatch: Any) -> None:
    monkeypatch.setattr(informer, "RETRY_PAUSE_S", 0.0)
    expired = events(("ERROR", {"message": "too old resource version"}))
    made, paths = followed(ApiOfAnswers(listed(item("a"), version="7"), expired, listed(item("b"), version="9")))
    assert made.objects == {"b": item("b")}
    assert len(paths) == 3
