"""Meaning of what the API server answers: its HTTP status code and its body, as one `Reply`."""

from __future__ import annotations

import orjson

from cotenant.controller.client.kube import Document, Outcome, Reply


def is_final(raw: bytes) -> bool:
    """An error of the server that would come back at each repetition: the object is larger than etcd accepts, or than
    may be sent to it. The API server then answers 500.
    """
    return any(text in raw for text in (b"etcdserver: request is too large", b"trying to send message larger than max"))


def is_of_a_webhook(raw: bytes) -> bool:
    """True if the API server could not call an admission webhook whose `failurePolicy` is `Fail`: it answers 500."""
    return b"failed calling webhook" in raw


def read_reply(code: int, raw: bytes) -> Reply:
    """The reply of an answer with this HTTP status code."""
    try:
        document: Document = orjson.loads(raw) if raw else {}
    except orjson.JSONDecodeError:  # what is not an API object: the 404 of a resource that is not installed
        document = {"message": raw[:200].decode(errors="replace").strip()}
    if code < 300:
        return Reply(Outcome.DONE, document, code=code)
    message = str(document.get("message", ""))
    if code == 404:
        return Reply(Outcome.MISSING, message=message, code=code)
    if code == 409:
        exists = document.get("reason") == "AlreadyExists"
        return Reply(Outcome.EXISTS if exists else Outcome.CONFLICT, message=message, code=code)
    causes = (document.get("details") or {}).get("causes") or ()
    return Reply(Outcome.REFUSED, message=message, code=code, fields=tuple(str(one.get("field", "")) for one in causes))
