"""Settings of the operator: where they come from, and which are refused."""

from __future__ import annotations

import pytest

from cotenant.controller.settings import Settings, SettingsError
from cotenant.core.policy import Policy


def test_flags_win_over_the_environment_and_the_environment_over_defaults() -> None:
    settings = Settings.read({"COTENANT_PORT": "9", "COTENANT_NAMESPACE": "a"}, {"port": "10", "namespace": None})
    assert (settings.port, settings.namespace, settings.tick_s) == (10, "a", 5.0)


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"COTENANT_PORT": "http"}, "COTENANT_PORT='http' is not a int"),
        ({"COTENANT_TICK_S": "0"}, "COTENANT_TICK_S must be above 0"),
        ({"COTENANT_SCRATCH_MIB": "-1"}, "COTENANT_SCRATCH_MIB=-1 is negative"),
        ({"COTENANT_MAX_GRACE_PERIOD_S": "0"}, "COTENANT_MAX_GRACE_PERIOD_S must be above 0"),
        ({"COTENANT_MAX_GRACE_PERIOD_S": "86401"}, "COTENANT_MAX_GRACE_PERIOD_S=86401 is too much; give at most 86400"),
        ({"COTENANT_TOLERATIONS": "all"}, "COTENANT_TOLERATIONS is not JSON"),
        ({"COTENANT_TOLERATIONS": "{}"}, "COTENANT_TOLERATIONS must be a JSON list"),
        ({"COTENANT_RUN_AS_USER": "0"}, "COTENANT_RUN_AS_USER is '0'; give the number of a user that is not root"),
        ({"COTENANT_CERTIFICATE_SECRETS": "{}"}, "COTENANT_CERTIFICATE_SECRETS has no list of Secrets"),
        ({"COTENANT_POD_LABELS": "[]"}, 'COTENANT_POD_LABELS must be a JSON object of texts, such as {"team": "ml"}'),
        ({"COTENANT_POD_LABELS": '{"a": 1}'}, "COTENANT_POD_LABELS must be a JSON object of texts"),
        (
            {"COTENANT_POD_ANNOTATIONS": '{"cotenant.dev/placement": ""}'},
            "COTENANT_POD_ANNOTATIONS must not have cotenant.dev/placement, which is the operator's own",
        ),
        ({"COTENANT_POD_ANNOTATIONS": "no"}, "COTENANT_POD_ANNOTATIONS is not JSON"),
        (
            {"COTENANT_DNS_PORTS": "dns"},
            "COTENANT_DNS_PORTS has 'dns', which is no port; write numbers such as 53,5353",
        ),
        ({"COTENANT_DNS_CIDRS": "169.254.1.1/16"}, "COTENANT_DNS_CIDRS has '169.254.1.1/16', which is no network"),
        ({"COTENANT_EGRESS_CIDRS": "10.0.0.0/99"}, "COTENANT_EGRESS_CIDRS has '10.0.0.0/99', which is no network"),
        ({"COTENANT_SERVER_TOLERATIONS": "{}"}, "COTENANT_SERVER_TOLERATIONS must be a JSON list"),
    ],
    ids=str,
)
def test_a_setting_that_makes_no_sense_is_refused_by_name(environment: dict[str, str], named: str) -> None:
    with pytest.raises(SettingsError, match=named.replace("(", r"\(")):
        Settings.read(environment)


def test_what_decisions_are_made_by_can_be_set_and_has_the_defaults_of_the_core() -> None:
    assert Settings().policy == Policy()
    assert Settings.read({"COTENANT_PROTECTED_RUNTIME_S": "600", "COTENANT_MOVES": "0"}).policy == Policy(
        protected_runtime_s=600, moves=0
    )


def test_two_replicas_have_two_names() -> None:
    assert Settings.read({}).identity != Settings.read({}).identity
