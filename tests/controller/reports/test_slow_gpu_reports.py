"""Whose word about a GPU counts, for how long, and that nobody's alone makes it suspect."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.controller.reports.slow_gpu_reports import COUNTS_S, MOST, Reporter, changes

NOW = datetime(2026, 11, 22, 14, tzinfo=UTC).timestamp()
REPORTS, SUSPECT = "slow-reports.cotenant.dev/GPU-a", "suspect.cotenant.dev/GPU-a"
RED, BLUE = Reporter("red", "team-red"), Reporter("blue", "team-blue")
ONE = "red/team-red=2026-11-22T14:00:00Z"
BOTH = "blue/team-blue=2026-11-22T14:00:00Z,red/team-red=2026-11-22T14:00:00Z"
AGREE = "jobs of 2 queues found it far slower than their other GPUs, last 2026-11-22T14:00:00Z"
LAST_WEEK = "red/team-red=2026-11-15T14:00:00Z"


@pytest.mark.parametrize(
    ("before", "found", "want"),
    [
        pytest.param({}, [], {}, id="nothing"),
        pytest.param({}, [RED], {REPORTS: ONE}, id="one tenant: a note and no more"),
        pytest.param({REPORTS: ONE}, [RED], {}, id="the same tenant again: it is noted already"),
        pytest.param({REPORTS: ONE}, [BLUE], {REPORTS: BOTH, SUSPECT: AGREE}, id="another tenant agrees"),
        pytest.param(
            {REPORTS: ONE},
            [Reporter("red-2", "team-red")],
            {REPORTS: "red/team-red=2026-11-22T14:00:00Z,red-2/team-red=2026-11-22T14:00:00Z"},
            id="a tenant with two queues does not agree with himself",
        ),
        pytest.param(
            {REPORTS: ONE},
            [Reporter("red", "team-2")],
            {REPORTS: "red/team-2=2026-11-22T14:00:00Z,red/team-red=2026-11-22T14:00:00Z"},
            id="nor one with two namespaces in a queue",
        ),
        pytest.param({REPORTS: LAST_WEEK}, [BLUE], {REPORTS: ONE.replace("red", "blue")}, id="one of them last week"),
        pytest.param({REPORTS: LAST_WEEK, SUSPECT: AGREE}, [], {REPORTS: None, SUSPECT: None}, id="it fades"),
        pytest.param(
            {REPORTS: ONE, SUSPECT: AGREE}, [], {SUSPECT: None}, id="one of two fades, and they agree no more"
        ),
        pytest.param({SUSPECT: "seen by hand"}, [], {}, id="the administrator's own word stays"),
        pytest.param(
            {REPORTS: "red/team-red=2999-01-01T00:00:00Z,=,x,a/b=yesterday,/=2026-11-22T14:00:00Z"},
            [RED],
            {REPORTS: ONE},
            id="what nobody can have written",
        ),
    ],
)
def test_a_gpu_is_suspect_when_different_tenants_agree(
    before: dict[str, str], found: list[Reporter], want: dict[str, str | None]
) -> None:
    assert changes(before, [("GPU-a", who) for who in found], NOW) == want


NAMES = st.sampled_from(["a", "b", "c", "d"])
STORIES = st.lists(
    st.tuples(st.sampled_from(["GPU-a", "GPU-b"]), st.builds(Reporter, NAMES, NAMES), st.integers(0, int(COUNTS_S))),
    max_size=12,
)


@given(STORIES)
def test_in_any_story_two_tenants_within_a_day_make_a_gpu_suspect_and_no_one_else_does(
    story: list[tuple[str, Reporter, int]],
) -> None:
    annotations: dict[str, str] = {}
    now, seen = NOW, list[tuple[str, Reporter, float]]()
    for uuid, who, passed in story:
        now += passed
        seen.append((uuid, who, now))
        for key, text in changes(annotations, [(uuid, who)], now).items():
            if text is None:
                annotations.pop(key, None)
            else:
                annotations[key] = text
        for gpu in ("GPU-a", "GPU-b"):
            recent = [one for name, one, at in seen if name == gpu and now - at < COUNTS_S]
            agree = len({one.queue for one in recent}) > 1 and len({one.namespace for one in recent}) > 1
            if len(set(recent)) <= MOST:
                assert (f"suspect.cotenant.dev/{gpu}" in annotations) == agree
        assert changes(annotations, (), now) == {}
    assert set(changes(annotations, (), now + COUNTS_S).values()) <= {None}


def test_what_is_noted_of_a_gpu_stays_short() -> None:
    crowd = [("GPU-a", Reporter(f"q{number}", "ns")) for number in range(500)]

    assert (changes({}, crowd, NOW)[REPORTS] or "").count(",") == MOST - 1


@given(st.text(max_size=80))
def test_no_annotation_makes_it_fail(text: str) -> None:
    assert changes({REPORTS: text}, [("GPU-a", RED)], NOW).get(REPORTS, ONE) == ONE
