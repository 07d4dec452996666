"""What happened to a job: each thing once, the first and the newest, bounded for all together."""

from __future__ import annotations

import pytest

from cotenant.decision_log import timelines
from cotenant.decision_log.timelines import Happening, Timelines


def happening(number: int, reason: str = "") -> Happening:
    return Happening(at=float(number), what="Waits", reason=reason or f"r{number}")


def test_the_same_again_is_left_out() -> None:
    known = Timelines()
    for one in (happening(1, "a"), happening(2, "a"), happening(3, "b"), happening(4, "a")):
        known.note("u", one)
    assert [one.at for one in known["u"].happenings] == [1.0, 3.0, 4.0]


def test_the_first_and_the_newest_are_kept() -> None:
    known = Timelines()
    for number in range(timelines.OF_ONE_MAX + 5):
        known.note("u", happening(number))
    kept = [int(one.at) for one in known["u"].happenings]
    newest = timelines.OF_ONE_MAX + 5
    assert kept == [*range(timelines.FIRST_KEPT), *range(timelines.FIRST_KEPT + 5, newest)]
    assert known["u"].left_out == 5


def test_the_class_of_its_gpus_stays_until_another_is_given() -> None:
    known = Timelines()
    known.note("u", happening(1), gpu_class="H100")
    known.note("u", happening(2))
    assert known["u"].gpu_class == "H100"
    known.note("u", happening(3), gpu_class="A100")
    assert known.pop("u").gpu_class == "A100"
    assert known["u"].happenings == ()


def test_of_all_jobs_the_one_that_is_quiet_for_the_longest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timelines, "TOGETHER_MAX", 4)
    known = Timelines()
    for number, uid in enumerate(("a", "b", "a", "b", "c")):
        known.note(uid, happening(number))
    assert [len(known[uid].happenings) for uid in "abc"] == [0, 2, 1]


def test_a_long_message_is_cut() -> None:
    known = Timelines()
    known.note("u", Happening(at=1.0, what="Waits", message="x" * 9_000))
    assert len(known["u"].happenings[0].message) == timelines.MESSAGE_CHARS_MAX
