"""The termination message of every pod: why it ended, and from rank 0's pod the results."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

from cotenant.contract.decoding.bounded_json import Bounds, Malformed, parse
from cotenant.contract.decoding.fields import Fields
from cotenant.contract.decoding.reported_values import Value, plain_values

BYTES_MAX: Final = 4096
"""The kubelet keeps no more of a message."""
WRITTEN_BYTES_MAX: Final = 4000
BOUNDS: Final = Bounds(bytes_max=BYTES_MAX, depth_max=4, values_max=BYTES_MAX, digits_max=64)
MESSAGE_CHARS_MAX: Final = 4000
TAIL_LINES_MAX: Final = 100
TAIL_CHARS_MAX: Final = 1000
WARNINGS_MAX: Final = 16
WARNING_CHARS_MAX: Final = 400
CODE_MAX: Final = 255
NODE_RANK_MAX: Final = 100_000
SIGNAL_MAX: Final = 64
RESTARTS_MAX: Final = 100_000
SECONDS_MAX: Final = 1e9
_RESULTS_BYTES_MAX: Final = 2400
"""Of a message that has more to say than fits."""


@dataclass(frozen=True, slots=True)
class Termination:
    """The JSON in a pod's termination message (at most 4,096 bytes; `to_json` trims it to fit)."""

    node_rank: int
    attempt: int
    code: int
    reason: str
    """`Completed`, `UserError`, `OutOfMemory`, `OutOfGPUMemory`, `ExitedEarly`, `HungCollective`, `Stalled`,
    `RendezvousTimeout`, `RayDied`, `PeerLost`, `RestartFailed`, `Quota`, `BadContract`, `Preempted`, or why data or
    code is missing.
    """
    message: str = ""
    rank: int | None = None
    """The first rank that failed of its own accord, or nothing."""
    pod: int | None = None
    """The node rank of that rank's pod: every pod of the gang tells the same story."""
    signal: int | None = None
    results: dict[str, float | int | str] = field(default_factory=dict)
    """Rank 0's pod only: the final metrics, all-reduced."""
    step: int = 0
    """Rank 0's pod only: the last step that rank 0 reported, and how many there are in all, if it said so."""
    of: int = 0
    last_checkpoint_step: int | None = None
    staged_bytes: int = 0
    """Rank 0's pod only: of the job's data, what its pods have fetched, of how many bytes, in how many seconds."""
    staging_bytes: int = 0
    staging_s: float = 0.0
    restarts: int = 0
    """Rank 0's pod only: times that the ranks of this attempt were started again in their pods."""
    tail: tuple[str, ...] = ()
    """The last lines that the failing rank printed."""
    warnings: tuple[str, ...] = ()
    """What of the results is not as it was reported, by key."""

    def to_json(self) -> str:
        """Trimmed to fit, least important first: the oldest lines, results, warnings, then the end of the message."""
        document = asdict(self)
        for name in ("warnings", "staged_bytes", "staging_bytes", "staging_s"):
            if not document[name]:
                del document[name]
        _shorten(document, "tail")
        if _size(document) > WRITTEN_BYTES_MAX and document["results"]:
            _shorten_results(document)
        _shorten(document, "warnings")
        while _size(document) > WRITTEN_BYTES_MAX and document["message"]:  # a character may take twelve bytes
            document["message"] = document["message"][: len(document["message"]) * 2 // 3]
        return _encoded(document)

    @classmethod
    def from_json(cls, data: str | bytes) -> Self | Malformed:
        """A field that does not fit is left out, and a warning names it."""
        raw = parse(data, BOUNDS)
        if not isinstance(raw, dict):
            return raw if isinstance(raw, Malformed) else Malformed("is not an object")
        fields = Fields(raw, "termination")
        results, notes = plain_values(dict(fields.entries("results")), "results")
        found: dict[str, Any] = {
            "node_rank": fields.whole("node_rank", 0, NODE_RANK_MAX),
            "attempt": fields.whole("attempt", 0),
            "code": fields.whole("code", -1, CODE_MAX, least=-1),
            "reason": fields.word("reason", "Error"),
            "message": fields.text("message", MESSAGE_CHARS_MAX, lines=True),
            "rank": fields.whole_or_none("rank", NODE_RANK_MAX),
            "pod": fields.whole_or_none("pod", NODE_RANK_MAX),
            "signal": fields.whole_or_none("signal", SIGNAL_MAX),
            "step": fields.whole("step", 0),
            "of": fields.whole("of", 0),
            "last_checkpoint_step": fields.whole_or_none("last_checkpoint_step"),
            "staged_bytes": fields.whole("staged_bytes", 0),
            "staging_bytes": fields.whole("staging_bytes", 0),
            "staging_s": fields.number("staging_s", SECONDS_MAX),
            "restarts": fields.whole("restarts", 0, RESTARTS_MAX),
            "tail": fields.texts("tail", TAIL_LINES_MAX, TAIL_CHARS_MAX),
        }
        warnings = fields.texts("warnings", WARNINGS_MAX, WARNING_CHARS_MAX)
        fields.remarks(notes)
        return cls(**found, results=results, warnings=(*warnings, *fields.notes))


def _encoded(document: dict[str, Any]) -> str:
    return json.dumps(document, sort_keys=True)


def _size(document: dict[str, Any]) -> int:
    return len(_encoded(document).encode())


def _shorten(document: dict[str, Any], name: str) -> None:
    """Take entries away from the beginning of a list, as many as are too many."""
    while document.get(name) and _size(document) > WRITTEN_BYTES_MAX:
        document[name] = document[name][1:]


def _shorten_results(document: dict[str, Any]) -> None:
    """Keep the first results that fit; a warning says from which one on they are left out."""
    kept: dict[str, Value] = {}
    results, room = document["results"], _RESULTS_BYTES_MAX
    for key, value in results.items():
        room -= len(_encoded({key: value}))
        if room < 0:
            left_out = len(results) - len(kept)
            text = (
                f"results: {left_out} of {len(results)} were left out, {key} first: a pod can leave {BYTES_MAX} bytes"
            )
            document["warnings"] = (text, *document.get("warnings", ()))
            break
        kept[key] = value
    document["results"] = kept
