"""A gang that is not up in time."""

from __future__ import annotations

from cotenant.controller.lifecycle.reconcile import reconcile
from cotenant.core.model.lifecycle import Phase
from tests.controller.builders import T0, admitted, observed, pod, server
from tests.controller.lifecycle.reconcile_cases import ONE, SETTINGS, TWO

NOWHERE = "Unschedulable: 0/3 nodes are available: 3 Insufficient cpu."


def test_the_node_that_failed_a_gang_is_avoided_for_a_while_and_the_others_are_not() -> None:
    given = observed(admitted(Phase.STARTING, *TWO), pod(0, ready=True), pod(1, node="n2"), now=T0 + 300)
    step = reconcile(given, SETTINGS)
    assert step.status is not None
    assert [(one.node, one.until.timestamp()) for one in step.status.excluded_nodes] == [("n2", T0 + 1200)]


def test_a_server_that_no_node_can_take_is_not_blamed_on_the_nodes_of_the_ranks() -> None:
    waits = server(nodes=1, node="", waiting=NOWHERE)
    given = observed(admitted(Phase.STARTING, *ONE, servers=1), pod(0, ready=True), waits, now=T0 + 300)
    step = reconcile(given, SETTINGS)
    assert step.status is not None
    assert step.status.excluded_nodes == ()
