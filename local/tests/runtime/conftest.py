"""What stands for the messages of the CRI in tests of pure functions.

`cri_numbers` has the interface's enums and nothing else of it; `cri_classes` is for tests that make messages too.
"""

import pytest

from cotenant_local.runtime.interface import proto
from local.tests.runtime.cri_messages import NUMBERS, AnyMessage


@pytest.fixture
def cri_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proto, "pb", NUMBERS)


@pytest.fixture
def cri_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proto, "pb", AnyMessage())
