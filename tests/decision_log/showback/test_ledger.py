"""The ledger: each job is charged once for what it held, whoever looks and however often."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from cotenant.decision_log.measured_use import MeasuredUse
from cotenant.decision_log.showback.charges import UsageCharge
from cotenant.decision_log.showback.ledger import HeldSoFar, UsageLedger


def held(total: int, last_amount: int | None = None) -> HeldSoFar:
    """A job whose last attempt held from second 10 to 20; all of the total, if nothing else is said."""
    last = total if last_amount is None else last_amount
    return HeldSoFar(
        namespace="red",
        name="train",
        uid="u",
        queue="q",
        total=total,
        since=0,
        last_since=10,
        last_until=20,
        last_amount=last,
    )


def test_a_job_is_charged_for_what_came_since() -> None:
    ledger = UsageLedger()
    found = [ledger.charge(held(total)) for total in (0, 100, 100, 140)]
    assert [one and one.held for one in found] == [None, 100, None, 40]


def test_a_charge_of_several_attempts_begins_with_the_first() -> None:
    one = UsageLedger().charge(held(100, last_amount=30))
    assert one is not None
    assert (one.since, one.until) == (0, 20)


def test_idle_is_counted_of_the_samples_since_the_last_charge() -> None:
    ledger = UsageLedger()
    uses = MeasuredUse(busy_samples=4, idle_samples=4), MeasuredUse(busy_samples=8, idle_samples=5)
    found = [ledger.charge(replace(held(total), use=use)) for total, use in zip((100, 200), uses, strict=True)]
    assert [one and (one.used, one.idle) for one in found] == [(0, 100), (75, 25)]


def test_what_goes_on_is_asked_for_and_charged_later() -> None:
    ledger = UsageLedger()
    ledger.charge(held(100))
    asked = [ledger.going_on(held(130)) for _ in range(2)]
    assert [one and one.held for one in asked] == [30, 30]
    assert ledger.charge(held(130)) == asked[0]


@dataclass(frozen=True)
class End:
    """An attempt that is over: what it held, and what of that was lost to which."""

    amount: int
    preempted: int
    faulted: int


@st.composite
def ends(draw: st.DrawFn) -> End:
    amount = draw(st.integers(0, 10**9))
    preempted, faulted = draw(st.sampled_from([(1, 0), (0, 1), (0, 0)]))
    lost = draw(st.integers(0, amount))
    return End(amount, lost * preempted, lost * faulted)


LOOKS = st.lists(st.sampled_from(["end", "look", "new leader", "lost batch", "old status"]), max_size=40)


@given(st.lists(ends(), min_size=1, max_size=12), LOOKS, st.integers(-5, 5))
def test_the_four_parts_add_up_to_what_was_held_in_any_history(made: list[End], steps: list[str], clock: int) -> None:
    """Attempts end by evictions, faults or by themselves; a new leader goes on from the lines that were written; a
    batch that was not written before a SIGKILL is charged again from the status; an old status that a watch repeats
    charges nothing; the clock steps by `clock` seconds between attempts.
    """
    ledger, lines, unwritten, over = UsageLedger(), list[UsageCharge](), list[UsageCharge](), 0

    def status(number: int) -> HeldSoFar:
        done = made[:number]
        total = sum(one.amount for one in done)
        at = 10 * number + clock * (number % 3)
        return replace(
            held(total, done[-1].amount if done else 0),
            last_since=at,
            last_until=max(at, at + clock),
            preempted=sum(one.preempted for one in done),
            faulted=sum(one.faulted for one in done),
            use=MeasuredUse(busy_samples=number, idle_samples=number // 2),
        )

    def look(number: int) -> None:
        if (one := ledger.charge(status(number))) is not None:
            unwritten.append(one)

    for step in steps:
        if step == "end":
            over = min(len(made), over + 1)
        elif step == "look":
            look(over)
            lines += unwritten
            unwritten.clear()
        elif step == "old status":
            look(max(0, over - 1))
        else:
            lines += unwritten if step == "new leader" else []
            unwritten.clear()
            ledger = UsageLedger()
            ledger.restore(lines)
    look(len(made))
    lines += unwritten
    assert sum(one.held for one in lines) == sum(one.amount for one in made)
    assert sum(one.used + one.idle + one.lost_to_preemption + one.lost_to_faults for one in lines) == sum(
        one.amount for one in made
    )
    assert sum(one.lost_to_preemption for one in lines) == sum(one.preempted for one in made)
    assert sum(one.lost_to_faults for one in lines) == sum(one.faulted for one in made)
    assert all(one.since <= one.until and min(one.used, one.idle) >= 0 for one in lines)
