"""The life of a session: made, warned, suspended by itself or by a person, resumed, ended; each step decided anew."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.api.conversion.to_core import parse_job
from tests.controller.composites.sessions.builders import SessionStory, moment, queue, running

HOUR = 3600.0


def test_it_becomes_a_job_of_one_worker_with_the_same_queue_share_and_limits() -> None:
    story = SessionStory(
        resources={"cpu": 2, "memory": "8Gi"}, volume={"claimName": "home"}, priority=3, image="lab:1", gracePeriod="1m"
    )
    story.document["metadata"]["annotations"] = {"cotenant.dev/user": "ann"}
    story.settle()
    assert story.job is not None
    assert parse_job(story.job)
    annotations = story.job["metadata"]["annotations"]
    assert (story.job["metadata"]["name"], annotations["cotenant.dev/user"]) == ("nb-session", "ann")
    path = "/sessions/red/nb/app/"
    assert story.job["spec"] == {
        "queue": "red",
        "priority": 3,
        "gpu": {"memoryFraction": "0.5", "autoSize": False, "sharing": "Queue", "classes": [], "zones": []},
        "resources": {"cpu": "2", "memory": "8Gi"},
        "gracePeriod": "1m",
        "workers": 1,
        "retries": 3,
        "suspend": False,
        "runtime": {
            "image": "lab:1",
            "command": ["python", "-m", "cotenant_worker.sessions", "JupyterLab", "--path", path],
            "volumes": [
                {
                    "name": "home",
                    "mountPath": "/home/session",
                    "persistentVolumeClaim": {"claimName": "home"},
                }
            ],
        },
    }
    assert story.phase == ("Pending", "Pending")


def test_what_it_leaves_out_its_job_has_of_the_profile() -> None:
    story = SessionStory(profile="small")
    del story.document["spec"]["gpu"]
    story.settle()
    assert story.job is not None
    assert parse_job(story.job).spec.profile == "small"
    assert {"gpu", "resources", "image"}.isdisjoint({*story.job["spec"], *story.job["spec"]["runtime"]})
    story.job_is("Pending", pending={"reason": "UnknownProfile", "message": "there is none", "since": moment(0)})
    story.settle()
    assert story.phase == ("Pending", "UnknownProfile")


def test_a_program_of_ones_own_gets_its_port_and_stands_at_the_root() -> None:
    story = SessionStory(application="Program", program={"command": ["serve", "--fast"], "port": 9000})
    story.settle()
    assert story.job is not None
    assert story.job["spec"]["runtime"]["command"][3:] == [
        "Program", "--path", "/", "--port", "9000", "--", "serve", "--fast",
    ]  # fmt: skip
    assert (story.status["port"], story.status["path"]) == (9000, "/")


@pytest.mark.parametrize(
    ("job", "shown"),
    [
        (
            {"phase": "Pending", "pending": {"reason": "QuotaExceeded", "message": "Needs 1 GPU"}},
            ("Pending", "QuotaExceeded"),
        ),
        ({"phase": "Starting"}, ("Starting", "Starting")),
        ({"phase": "Running"}, ("Starting", "Starting")),
        ({"phase": "Running", "progress": {"busy": False}}, ("Running", "Running")),
        ({"phase": "Evicting", "reason": "Preempted"}, ("Pending", "Preempted")),
        ({"phase": "Succeeded"}, ("Ended", "ApplicationEnded")),
        ({"phase": "Failed", "reason": "UserError", "message": "exit code 1"}, ("Failed", "UserError")),
        ({"phase": "Invalid", "reason": "Invalid"}, ("Failed", "Invalid")),
        ({"phase": "PhaseOfANewerRelease"}, ("Starting", "Starting")),
    ],
)
def test_it_shows_what_its_job_does(job: dict[str, Any], shown: tuple[str, str]) -> None:
    story = SessionStory()
    story.settle()
    story.job_is(**job)
    story.settle()
    assert story.phase == shown


@pytest.mark.parametrize("application", ["JupyterLab", "CodeServer", "Shell", "Program"])
def test_it_is_ready_when_its_application_accepts_connections_and_its_times_run_before(application: str) -> None:
    own = {"program": {"command": ["serve"], "port": 9000}} if application == "Program" else {}
    story = SessionStory(application=application, **own)
    story.settle()
    story.job_is("Running")
    story.settle()
    assert (story.ready, story.status["endsAt"] is not None) == ("False", True)
    assert story.status["message"] == "its application starts, and does not accept connections yet"
    story.used()
    story.settle(10.0)
    assert story.ready == "True"
    story.job_is("Running")  # it is started again in its pod
    story.settle(20.0)
    assert (story.ready, story.phase) == ("False", ("Starting", "Starting"))


def test_an_application_that_never_listens_is_suspended_for_idleness() -> None:
    story = SessionStory()
    story.settle()
    story.job_is("Running")
    story.settle()
    story.step(0.9 * HOUR)
    story.step(HOUR)
    assert (story.phase, story.events) == (("Suspending", "IdleTimeout"), ["SuspensionWarning", "IdleTimeout"])


def test_one_that_runs_says_how_to_open_it_from_any_namespace() -> None:
    assert running().status["message"] == "open it: kubectl cotenant session open nb -n red"


def test_one_that_is_idle_is_warned_and_then_suspended_and_its_job_with_it() -> None:
    story = running()
    story.step(0.74 * HOUR)
    assert (story.status.get("suspendsAt"), story.events) == (None, [])
    story.step(0.84 * HOUR)
    assert (story.status["suspendsAt"], story.events) == (moment(HOUR), ["SuspensionWarning"])
    warned = next(one for one in story.status["conditions"] if one["type"] == "SuspensionWarning")
    assert (warned["status"], warned["reason"]) == ("True", "IdleTimeout")
    assert "2026" in warned["message"] or moment(HOUR) in warned["message"]
    story.step(0.9 * HOUR)
    assert story.events == ["SuspensionWarning"]
    story.step(HOUR)
    assert (story.phase, story.suspends) == (("Suspending", "IdleTimeout"), (False, False))
    story.settle(HOUR + 1)
    assert (story.phase, story.suspends) == (("Suspending", "IdleTimeout"), (True, True))
    story.job_is("Suspended")
    story.settle(HOUR + 2)
    assert (story.phase, story.events) == (("Suspended", "IdleTimeout"), ["SuspensionWarning", "IdleTimeout"])


@pytest.mark.parametrize("use", ["kernel", "gpu", "typed"])
def test_use_of_a_kernel_or_of_a_gpu_keeps_it_and_takes_the_warning_back(use: str) -> None:
    story = running()
    story.step(0.9 * HOUR)
    assert story.status["suspendsAt"]
    if use != "gpu":
        story.used(busy=use == "kernel", at=0.95 * HOUR)
    story.step(0.95 * HOUR, gpu_busy=use == "gpu")
    assert (story.phase, story.status.get("suspendsAt")) == (("Running", "Running"), None)
    story.used(busy=False)
    story.step(1.94 * HOUR)
    assert (story.phase, bool(story.status["suspendsAt"])) == (("Running", "Running"), True)
    story.step(1.94 * HOUR + 301)
    assert story.phase == ("Suspending", "IdleTimeout")


def test_one_that_no_operator_could_warn_is_warned_first() -> None:
    story = running()
    story.step(3 * HOUR)
    assert (story.phase, story.status["suspendsAt"]) == (("Running", "Running"), moment(3 * HOUR + 300))
    story.step(3 * HOUR + 299)
    assert (story.phase, story.events) == (("Running", "Running"), ["SuspensionWarning"])
    story.step(3 * HOUR + 300)
    assert story.phase == ("Suspending", "IdleTimeout")


def test_what_its_queue_allows_bounds_its_times_from_when_it_is_written() -> None:
    story = running(idleTimeout="8h", maxLifetime="100h")
    story.step(2 * HOUR)
    assert (story.phase, story.status["endsAt"]) == (("Running", "Running"), moment(100 * HOUR))
    story.queues = {"red": queue("red", idleTimeout="1h", maxLifetime="12h")}
    story.step(2 * HOUR)
    assert (story.status["endsAt"], story.status["suspendsAt"]) == (moment(12 * HOUR), moment(2 * HOUR + 300))
    warned = next(one for one in story.status["conditions"] if one["type"] == "SuspensionWarning")
    assert "(queue red allows spec.idleTimeout: 1h)" in warned["message"]
    story.step(2 * HOUR + 301)
    assert story.phase == ("Suspending", "IdleTimeout")


def test_a_program_that_claims_to_be_used_in_the_future_gains_nothing() -> None:
    story = running()
    story.used(at=100 * HOUR)
    story.step(1.0)
    story.used()
    story.step(0.9 * HOUR)
    story.step(HOUR + 2)
    assert story.phase == ("Suspending", "IdleTimeout")


def test_its_life_ends_however_busy_it_is_and_a_new_one_begins_when_it_is_resumed() -> None:
    story = running(maxLifetime="2h")
    story.used(busy=True)
    story.step(1.9 * HOUR)
    assert story.events == ["SuspensionWarning"]
    story.step(2 * HOUR)
    story.settle(2 * HOUR)
    story.job_is("Suspended")
    story.settle(2.1 * HOUR)
    assert (story.phase, story.suspends) == (("Suspended", "LifetimeOver"), (True, True))
    assert story.status["message"].endswith("To go on: kubectl cotenant session resume nb -n red")
    story.spec(suspend=False)
    story.settle(5 * HOUR)
    assert story.suspends == (False, False)
    story.job_is("Running", attempts=2)
    story.used()
    story.settle(5 * HOUR)
    assert (story.phase, story.status["startedAt"]) == (("Running", "Running"), moment(5 * HOUR))


def test_a_person_who_resumes_it_before_it_has_stopped_gets_a_whole_new_time() -> None:
    story = running()
    story.step(0.9 * HOUR)
    story.step(HOUR)
    story.settle(HOUR)
    story.spec(suspend=False)
    story.settle(HOUR + 1)
    story.step(HOUR + 20)
    assert (story.phase, story.suspends) == (("Running", "Running"), (False, False))
    story.step(1.9 * HOUR + 30)
    story.step(2 * HOUR + 30)
    story.settle(2 * HOUR + 30)
    assert story.suspends == (True, True)


def test_the_next_leader_finishes_what_one_has_begun_to_suspend() -> None:
    story = running()
    story.step(0.9 * HOUR)
    story.step(HOUR)  # the condition alone was written
    story.used(busy=True)
    story.settle(HOUR + 5)
    assert story.suspends == (True, True)


def test_one_that_is_made_suspended_has_no_job_and_takes_none_until_it_is_resumed() -> None:
    story = SessionStory(suspend=True)
    story.settle()
    assert (story.job, story.phase) == (None, ("Suspended", "Suspended"))
    story.spec(suspend=False)
    story.settle()
    assert story.job is not None


def test_a_change_of_its_spec_waits_until_it_holds_nothing() -> None:
    story = running()
    story.spec(gpu={"count": 1})
    story.settle(1.0)
    assert story.job is not None
    assert story.job["spec"]["gpu"]["memoryFraction"] == "0.5"
    assert "holds from the next start on" in story.status["message"]
    story.spec(suspend=True)
    story.settle(2.0)
    story.job_is("Suspended")
    story.settle(3.0)
    assert story.job["spec"]["gpu"]["count"] == 1
    assert story.job["spec"]["suspend"] is True


def test_a_job_that_somebody_deletes_comes_back() -> None:
    story = running()
    story.job = None
    story.settle(10.0)
    assert story.job is not None
    assert story.phase[0] == "Pending"


def test_one_that_has_failed_is_reported_once_and_says_how_to_start_it_again() -> None:
    story = running()
    story.job_is("Failed", reason="UserError", message="exit code 127: jupyter is not found")
    story.settle(1.0)
    story.settle(2.0)
    assert story.events == ["UserError"]
    assert "delete trainingjob nb-session" in story.status["message"]


def test_time_of_activity_is_written_in_steps_and_gpus_are_looked_at_often() -> None:
    story = running()
    before = story.status["lastActivity"]
    story.step(10.0, gpu_busy=True)
    assert (story.status["lastActivity"], story.look_again_at) == (before, 25.0)
    story.step(61.0, gpu_busy=True)
    assert story.status["lastActivity"] == moment(61.0)
