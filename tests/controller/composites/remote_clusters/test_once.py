"""A job never runs on both clusters: whatever is lost, in whatever order, wherever the operator dies."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from cotenant import names
from cotenant.controller.client.kube import TRAINING_JOBS, Outcome, Reply, UnreachableError
from tests.controller.composites.remote_clusters.two_clusters import TwoClusters, forward
from tests.controller.execution.replica import simulate_time, submit
from tests.support.api_faults import Fault

pytestmark = pytest.mark.looptime

STEPS = 40


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_time(monkeypatch)


def runs_at(two: TwoClusters) -> list[str]:
    """The clusters on which the job `train` has GPUs or pods."""
    job = two.here.kube.stored(TRAINING_JOBS, "train", "red")
    uid = job["metadata"]["uid"] if job is not None else "gone"
    mirrors = [
        one["metadata"]["uid"]
        for one in two.mirrors()
        if one["metadata"].get("labels", {}).get(names.LABEL_ORIGIN_JOB) == uid
    ]
    found = ["here"] if two.holds(two.here.kube, uid) else []
    return found + ["there" for mirror in mirrors if two.holds(two.there.kube, mirror)]


async def look(two: TwoClusters) -> None:
    try:
        await two.look()
    except UnreachableError:
        return


async def anything(two: TwoClusters, chance: random.Random) -> None:
    """One event of the two clusters, or of those who use them."""
    here, there = two.here.kube, two.there.kube

    async def fault() -> None:
        side, far = (here, "train") if chance.random() < 0.5 else (there, "train-*")
        call = chance.choice(["POST trainingjobs/*", f"PATCH trainingjobs/{far}*", f"DELETE trainingjobs/{far}"])
        side.faults.add(Fault(call=call, lost="answer" if chance.random() < 0.5 else "request"))

    async def toggle_big() -> None:
        side, name = chance.choice([(here, "big"), (there, "theirs")])
        if side.stored(TRAINING_JOBS, name, "red"):
            side.remove(TRAINING_JOBS, name, "red")
        else:
            submit(side, name)

    async def toggle_suspend() -> None:
        job = here.stored(TRAINING_JOBS, "train", "red")
        if job is not None:
            two.edit(here, "train", suspend=not job["spec"].get("suspend", False))

    async def toggle_line() -> None:
        two.reachable = not two.reachable

    async def crash() -> None:
        two.crash()

    events: list[Callable[[], Awaitable[None]]] = [
        fault, toggle_big, toggle_suspend, toggle_line, crash,
        lambda: two.both(0.7), lambda: two.both(0.7), lambda: two.both(0.7),
        lambda: look(two), lambda: look(two), lambda: look(two), lambda: forward(700),
    ]  # fmt: skip
    await chance.choice(events)()


@pytest.mark.parametrize("seed", range(12))
async def test_a_job_runs_on_one_cluster_at_most(seed: int) -> None:
    two, chance = TwoClusters(), random.Random(seed)
    submit(two.here.kube, "big")
    await two.both()
    submit(two.here.kube, "train")
    places: set[str] = set()
    for _ in range(STEPS):
        await anything(two, chance)
        at = runs_at(two)
        assert len(at) <= 1, f"seed {seed}: {at}"
        places.update(at)
    # Finally, without further faults, it runs on one of them.
    two.reachable = True
    two.here.kube.faults.pending.clear()
    two.there.kube.faults.pending.clear()
    two.edit(two.here.kube, "train", suspend=False)
    for kube, name in ((two.here.kube, "big"), (two.there.kube, "theirs")):
        if kube.stored(TRAINING_JOBS, name, "red"):
            kube.remove(TRAINING_JOBS, name, "red")
    for _ in range(12):
        await two.both()
        await look(two)
        assert len(runs_at(two)) <= 1
    assert len(runs_at(two)) == 1 or two.status()["phase"] in {"Failed", "Succeeded"}, two.status()


CALLS = (
    "POST trainingjobs/train-*",
    "PATCH trainingjobs/train-*",
    "PATCH trainingjobs/train/status",
    "DELETE trainingjobs/train-*",
)


@pytest.mark.parametrize("lost", ["request", "answer"])
@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("call", CALLS)
async def test_an_operator_that_dies_at_any_write_is_followed_by_one_that_goes_on(
    call: str, nth: int, lost: str
) -> None:
    two = TwoClusters()
    submit(two.here.kube, "big")
    await two.both()
    submit(two.here.kube, "train")
    side = two.here.kube if call.endswith("status") else two.there.kube
    side.faults.add(Fault(call=call, nth=nth, lost=lost, first=lambda: None))  # type: ignore[arg-type]
    for turn in range(5):
        before = len(side.faults.pending)
        await two.both()
        await look(two)
        if len(side.faults.pending) < before:
            two.crash()
        if turn == 2 and call.startswith("DELETE"):
            two.edit(two.here.kube, "train", suspend=True)
        assert len(runs_at(two)) <= 1
    await two.settle(4)
    if call.startswith("DELETE"):
        assert (two.status()["phase"], two.mirrors()) == ("Suspended", [])
    else:
        assert (runs_at(two), two.status()["phase"]) == (["there"], "Running")


async def test_a_creation_that_arrives_after_the_job_is_back_starts_nothing_and_is_cleared_away() -> None:
    two = TwoClusters()
    submit(two.here.kube, "big")
    await two.both()
    submit(two.here.kube, "train")
    await two.settle(3)
    late = two.mirror()
    two.edit(two.here.kube, "train", suspend=True)
    await two.settle(4)
    assert two.mirrors() == []
    made = {key: value for key, value in late["metadata"].items() if key in {"name", "namespace", "labels"}}
    made["annotations"] = {names.ANNOTATION_ORIGIN: "red/train"}
    two.there.kube.put(TRAINING_JOBS, late | {"metadata": made, "spec": late["spec"] | {"suspend": True}, "status": {}})
    await two.both()
    assert runs_at(two) == []
    await two.look()
    assert two.mirrors() == []


async def in_line_on_both() -> TwoClusters:
    """`train` waits on both clusters, and has just become able to start here."""
    two = TwoClusters()
    submit(two.here.kube, "big")
    submit(two.there.kube, "theirs")
    await two.both()
    submit(two.here.kube, "train")
    for _ in range(2):
        await two.both()
        await two.look()
    two.here.kube.remove(TRAINING_JOBS, "big", "red")
    await two.both()
    assert two.status()["cluster"]["returning"]
    return two


def mirror_of(two: TwoClusters) -> dict[str, Any]:
    return next(one for one in two.mirrors() if one["metadata"]["name"].startswith("train-"))


async def test_a_job_that_is_admitted_there_just_before_it_is_deleted_there_stays_there() -> None:
    two = await in_line_on_both()

    def admit() -> None:
        mirror = mirror_of(two)
        two.there.kube.put(TRAINING_JOBS, mirror | {"status": mirror["status"] | {"phase": "Starting"}})

    two.there.kube.faults.add(Fault(call="DELETE trainingjobs/train-*", first=admit))
    await two.look()
    assert (two.status()["cluster"]["returning"], mirror_of(two)["status"]["phase"]) == (
        "there is a place for it here",
        "Starting",
    )
    await two.look()
    assert (two.status()["phase"], two.status()["cluster"].get("returning")) == ("Starting", None)


async def test_a_job_whose_deletion_there_takes_time_does_not_start_here_meanwhile() -> None:
    two = await in_line_on_both()
    going = dict(mirror_of(two))
    going["metadata"] = going["metadata"] | {"deletionTimestamp": "2026-01-01T00:10:00Z", "finalizers": ["theirs"]}
    two.there.kube.faults.add(
        Fault(call="DELETE trainingjobs/train-*", answer=Reply(Outcome.DONE, going)),
        Fault(call="GET trainingjobs/train-*", answer=Reply(Outcome.DONE, going)),
    )
    await two.look()
    await two.both()
    assert ("cluster" in two.status(), two.status()["phase"]) == (True, "Pending")
    await two.look()
    await two.both()
    assert ("cluster" in two.status(), two.status()["phase"]) == (False, "Running")


async def test_a_job_that_has_changed_there_since_it_was_seen_is_not_released() -> None:
    two = TwoClusters()
    submit(two.here.kube, "big")
    await two.both()
    submit(two.here.kube, "train")
    await two.both()

    def change() -> None:
        mirror = two.mirror()
        two.there.kube.put(TRAINING_JOBS, mirror | {"spec": mirror["spec"] | {"priority": 7}})

    two.there.kube.faults.add(Fault(call="PATCH trainingjobs/train-*", first=change))
    await two.look()
    assert two.mirror()["spec"]["suspend"] is True
    await two.look()
    assert (two.mirror()["spec"]["suspend"], two.mirror()["spec"]["priority"]) == (False, 7)
