"""Values of other systems in the shape that they have here; None where it is not clear what was meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cotenant.api.advice import carried_over as over

ROWS: list[tuple[Callable[[Any], Any], Any, Any]] = [
    (over.whole, "2", 2),
    (over.whole, 2.0, 2),
    (over.whole, 2.5, None),
    (over.whole, True, None),
    (over.whole, -1, None),
    (over.counted, 0, None),
    (over.text, 0.1, "0.1"),
    (over.text, True, "true"),
    (over.text, "", None),
    (over.listed, "a", ["a"]),
    (over.listed, True, None),
    (over.name, {"claimName": "data"}, "data"),
    (over.name, "Data", None),
    (over.names, "H100", ["H100"]),
    (over.names, ["H100", 1], None),
    (over.command, "python train.py", ["python", "train.py"]),
    (over.command, "train.py --lr 1", ["python", "train.py", "--lr", "1"]),
    (over.command, "a && b", ["sh", "-c", "a && b"]),
    (over.command, 'echo "a', ["sh", "-c", 'echo "a']),
    (over.command, ["a", 1], ["a", "1"]),
    (over.command, [], None),
    (over.command, " ", None),
    (over.command, 1, None),
    (over.arguments, {"--lr": 1}, ["----lr=1"]),
    (over.arguments, {"lr": 0.1}, ["--lr=0.1"]),
    (over.arguments, "--lr '0 1'", ["--lr", "0 1"]),
    (over.environment, {"A": 1}, [{"name": "A", "value": "1"}]),
    (over.environment, ["A=1", {"B": "2"}], [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]),
    (over.environment, [{"name": "A", "value": 1}], [{"name": "A", "value": "1"}]),
    (over.environment, [{"name": "A", "key": 1}], None),
    (over.environment, ["A"], None),
    (over.environment, {"A-B": 1}, None),
    (over.environment, {}, None),
    (over.gpu, 2, {"count": 2}),
    (over.gpu, 0.5, {"memoryFraction": "0.5"}),
    (over.gpu, "16Gi", {"memory": "16Gi"}),
    (over.gpu, "A100:2", {"count": 2, "classes": ["A100"]}),
    (over.gpu, ["H100"], {"count": 1, "classes": ["H100"]}),
    (over.gpu, True, None),
    (over.entrypoint, "train.main()", "train:main"),
    (over.entrypoint, "train.py", None),
    (over.claim, {"name": "data"}, {"claimName": "data"}),
    (over.volume, "data", None),
    (over.volumes, {"data": {"mountPath": "/data"}}, [{"name": "data", "mountPath": "/data"}]),
    (over.volumes, "data", None),
]


@pytest.mark.parametrize(("read", "value", "want"), ROWS, ids=lambda part: getattr(part, "__name__", repr(part)))
def test_a_value_in_the_shape_that_it_has_here(read: Callable[[Any], Any], value: Any, want: Any) -> None:
    assert read(value) == want
