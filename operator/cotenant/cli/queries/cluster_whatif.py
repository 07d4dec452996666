"""`cotenant whatif queue NAME gpus +4`, `… node NAME drain`, `… setting NAME VALUE`: questions of administrators."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from cotenant import names
from cotenant.cli.errors import EXIT_USAGE, UserError
from cotenant.cli.terminal.connection import connect
from cotenant.cli.terminal.output import Colour, about_when, counted, painted, printed
from cotenant.cli.terminal.watch import show

SHOWN: Final = 10
EXAMPLES: Final = """\
for administrators:
  whatif queue team-b gpus +4              four more guaranteed; also limit, lendable, and behind an amount its class
  whatif queue team-b weight 3             any field of its spec
  whatif node gpu-7 drain                  or: cordon, add [N] (nodes like this one)
  whatif setting collect_after_s 3600      a setting that decisions are made by
"""
KINDS: Final = ("queue", "node", "setting")
QUOTAS: Final = ("gpus", "guaranteed", "limit", "lendable")
ACTS: Final = {"drain": "Drain", "cordon": "Cordon", "add": "Add"}
LISTS: Final = (
    ("starts", "would start now", Colour.GREEN),
    ("promised", "would start as soon as others have left", Colour.GREEN),
    ("sooner", "would wait less", Colour.GREEN),
    ("evicted", "would be evicted", Colour.RED),
    ("keptWaiting", "would not start now, but starts without the change", Colour.RED),
    ("later", "would wait longer", Colour.RED),
)


def is_about_the_cluster(words: Sequence[str]) -> bool:
    return len(words) > 1 and words[0] in KINDS


def run(args: argparse.Namespace) -> int:
    if args.filename or args.changes:
        raise UserError("a change of the cluster is given in words, without -f and --set", EXIT_USAGE)
    spec = proposal(args.about)
    body = {"apiVersion": f"{names.QUERY_GROUP}/{names.QUERY_VERSION}", "kind": "ClusterWhatIf", "spec": spec}
    found = connect(args).post("/clusterwhatifs", body)

    def answer() -> str:
        started = [one["job"] for one in found["status"].get("starts") or ()]
        about = " ".join(args.about)
        return printed(found, args.output, lambda: started, lambda wide: "\n".join(sentences(found, about, wide=wide)))

    return show(args, answer)


def proposal(words: Sequence[str]) -> dict[str, Any]:
    """The proposed change, in the operator's form. Raises UserError."""
    kind, name, *rest = words
    if kind == "queue" and len(rest) >= 2:
        return {"queue": name} | _of_queue(rest)
    if kind == "setting" and len(rest) == 1:
        return {"setting": name, "value": rest[0]}
    if kind == "node" and rest and rest[0] in ACTS and len(rest) <= (2 if rest[0] == "add" else 1):
        return {"node": name, "act": ACTS[rest[0]]} | ({"count": _whole(rest[1])} if len(rest) == 2 else {})
    raise UserError(f"whatif {' '.join(words)} is not understood\n{EXAMPLES}", EXIT_USAGE)


def _of_queue(words: Sequence[str]) -> dict[str, Any]:
    change: dict[str, Any] = {}
    classes: set[str] = set()
    left = list(words)
    while len(left) >= 2:
        field, value = left.pop(0), left.pop(0)
        change[field] = value if field in QUOTAS else _value(value)
        if field in QUOTAS and left and (len(left) % 2 or left[1] in QUOTAS):
            classes.add(left.pop(0))
    if left or len(classes) > 1:
        raise UserError(f"whatif queue … {' '.join(words)} is not understood\n{EXAMPLES}", EXIT_USAGE)
    return {"change": change} | ({"gpuClass": classes.pop()} if classes else {})


def _value(text: str) -> object:
    try:
        return json.loads(text, parse_float=str)
    except ValueError:
        return text


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UserError(f"{text!r} is no number of nodes", EXIT_USAGE) from None


def sentences(answer: Mapping[str, Any], about: str, *, wide: bool = False) -> Iterator[str]:
    """The answer in words, one line each."""
    yield painted(about, Colour.BOLD)
    yield from touched(answer["status"], wide=wide)
    if answer["status"].get("command"):
        yield f"To do it: {answer['status']['command']}"


def touched(status: Mapping[str, Any], *, wide: bool = False) -> Iterator[str]:
    """Jobs that the change affects, by its effect on them."""
    waiting, counts = status["waiting"], status.get("counts") or {}
    for name, title, colour in LISTS:
        found = status.get(name) or []
        if not found:
            continue
        yield painted(f"{counted(counts.get(name, len(found)), 'job')} {title}:", colour)
        shown = found if wide else found[:SHOWN]
        yield from (f"  {_line(one)}" for one in shown)
        if more := counts.get(name, len(found)) - len(shown):
            yield f"  and {more} more"
    if not any(status.get(name) for name, _, _ in LISTS):
        yield "No running or waiting job would be affected."
    yield f"Jobs that wait: {waiting['before']} now, {waiting['after']} with it."
    if unbacked := status.get("unbackedGuarantees"):
        yield painted("All guarantees together would exceed the GPUs, so each counts for less:", Colour.RED)
        yield from (f"  {_less(one)}" for one in unbacked)


def _less(one: Mapping[str, Any]) -> str:
    scope = "".join(f" {word} {one[key]}" for word, key in (("of", "class"), ("in", "zone")) if one.get(key))
    unit = "GPU" if one["guaranteed"] == "1" else "GPUs"
    return f"{one['queue']}: {one['effective']} instead of {one['guaranteed']} {unit}{scope}"


def _line(one: Mapping[str, Any]) -> str:
    text = f"{one['job']}, {one['asks']}" + (f": {one['why']}" if one.get("why") else "")
    if "after" in one:
        text += f": starts at about {about_when(one['after'])}"
    return text + (f" instead of {about_when(one['before'])}" if "before" in one else "")
