"""The answer of rank 0's pod, whoever wrote it: read field by field, and never an exception."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cotenant.contract import Malformed, Progress, progress_bounds
from tests.support.well_formed import well_formed

WHOLE = 9007199254740991


@pytest.mark.parametrize(
    ("field", "value", "warning"),
    [
        ("slow_ranks", {"0": [1, 2, 3]}, "slow_ranks.0 was left out: a list is not two times in milliseconds"),
        ("slow_ranks", {"0": [1, None]}, "slow_ranks.0 was left out: a list is not two times in milliseconds"),
        ("slow_ranks", {"0": 1}, "slow_ranks.0 was left out: 1 is not two times in milliseconds"),
        ("slow_ranks", {"x": [1, 2]}, 'slow_ranks was left out: "x" is not the number of a rank'),
        ("slow_ranks", [[1, 2]], "slow_ranks was left out: a list is not an object"),
        ("step", 1.5, f"step was left out: 1.5 is not a whole number from 0 to {WHOLE}"),
        ("step", -1, f"step was left out: -1 is not a whole number from 0 to {WHOLE}"),
        ("step", 2**70, f"step was left out: an integer of 71 bits is not a whole number from 0 to {WHOLE}"),
        ("of", "9", f'of was left out: "9" is not a whole number from 0 to {WHOLE}'),
        ("of", [], f"of was left out: a list is not a whole number from 0 to {WHOLE}"),
        ("rate", float("nan"), "rate was left out: nan is not a number from 0 to 1000000000"),
        ("rate", -1, "rate was left out: -1 is not a number from 0 to 1000000000"),
        ("updated_at", 1e18, "updated_at was left out: 1e+18 is not a number from 0 to 4102444800"),
        ("last_checkpoint_at", 1e300, "last_checkpoint_at was left out: 1e+300 is not a number from 0 to 4102444800"),
        ("last_checkpoint_step", True,
         f"last_checkpoint_step was left out: true is not a whole number from 0 to {WHOLE}"),
        ("state", "\ud800", 'state was left out: "\\ud800" is not one word of at most 32 letters and digits'),
        ("collective", {}, "collective was left out: an object is not one word of at most 32 letters and digits"),
        ("metrics", [1], "metrics was left out: a list is not an object"),
        ("metrics", {"a": "b"}, "metrics.a was left out: a metric is a number"),
        ("metrics", {"a": {}}, "metrics.a was left out: an object is neither a number nor a text; json.dumps"
         " makes a text of it"),
        ("observed_gpus", {"0": "GPU-1"}, 'observed_gpus.0 was left out: "GPU-1" is not a list of UUIDs'),
        ("observed_gpus", {"0": ["\x1b"]}, "observed_gpus.0 was left out: a list is not a list of UUIDs"),
        ("observed_gpus", {"0": ["g"] * 65}, "observed_gpus.0 was left out: a list is not a list of UUIDs"),
        ("observed_gpus", {"٣": ["g"]}, 'observed_gpus was left out: "٣" is not the number of a rank'),
        ("memory_peak_mib", {"0": 0.5}, "memory_peak_mib.0 was left out: 0.5 is not a whole number of MiB"),
        ("warnings", "text", 'warnings was left out: "text" is not a list of texts'),
        ("warnings", [1], "warnings was left out: a list is not a list of texts"),
    ],
)  # fmt: skip
def test_a_field_that_does_not_fit_is_left_out_and_a_warning_names_it(field: str, value: Any, warning: str) -> None:
    others = {"state": "training", "checked_on": "cuda"} | {field: value}
    assert Progress.from_json(json.dumps(others)) == Progress(
        "" if field == "state" else "training", checked_on="cuda", warnings=(f"progress.{warning}",)
    )


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("[]", "is not an object"),
        ("null", "is not an object"),
        ("7", "is not an object"),
        ('{"a":' * 1000, "nests more than 4 deep"),
        ('{"step": ' + "1" * 5000 + "}", "holds a number of more than 32 digits"),
        ("{" + ",".join(f'"{n}":0' for n in range(2000)) + "}", "holds more than 2100 values"),
        (" " * 70_000, "is longer than 66048 bytes"),
    ],
    ids=lambda value: value[:12],
)
def test_a_document_that_does_not_pass_has_a_reason(data: str, reason: str) -> None:
    assert Progress.from_json(data) == Malformed(reason)
    assert Progress.from_json(data.encode()) == Malformed(reason)


def test_texts_are_plain_and_the_last_warnings_are_kept() -> None:
    found = well_formed(Progress.from_json(json.dumps({"warnings": ["\x1b[2J\u202e", *map(str, range(15))]})))
    assert found.warnings == ("\\x1b[2J\\u202e", *map(str, range(15)))
    many = well_formed(Progress.from_json(json.dumps({"warnings": ["x" * 500] * 30})))
    assert many.warnings == ("x" * 399 + "…",) * 16


def test_a_metric_that_is_not_finite_is_left_out() -> None:
    found = well_formed(Progress.from_json('{"metrics": {"a": NaN, "b": Infinity, "c": 1e400, "d": 0.5}}'))
    assert (found.metrics, found.warnings) == ({"d": 0.5}, ())


def test_the_answer_of_the_largest_job_is_within_its_bounds() -> None:
    ranks = 10_000
    gpus = {str(rank): [f"GPU-12345678-1234-1234-1234-{rank:012d}"] for rank in range(ranks)}
    peaks = {str(rank): 81920 for rank in range(ranks)}
    said = Progress("training", step=7, observed_gpus=gpus, memory_peak_mib=peaks)
    assert Progress.from_json(said.to_json(), ranks) == said
    assert progress_bounds(ranks).bytes_max < 8 << 20
