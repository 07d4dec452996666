"""The status of a RemoteCluster."""

from __future__ import annotations

from cotenant.api.conversion.to_core import parse_remote_cluster
from cotenant.api.resources.remote_clusters import RemoteCluster, RemoteClusterStatus
from cotenant.controller.composites.remote_clusters.cluster_status import cluster_status
from cotenant.controller.composites.remote_clusters.trouble import TroubleError
from tests.controller.builders import T0
from tests.controller.composites.remote_clusters.two_clusters import remote_cluster

LOST = TroubleError("Unreachable", "the cluster does not answer: no route to host")


def with_status(status: RemoteClusterStatus) -> RemoteCluster:
    return parse_remote_cluster(remote_cluster() | {"status": status.to_document()})


def test_the_condition_keeps_since_when_it_holds_and_what_was_seen_last() -> None:
    first = cluster_status(parse_remote_cluster(remote_cluster()), None, server="https://there", away=[], now=T0)
    assert (first.reachable, first.conditions[0].reason, first.message) == ("True", "Answers", "the cluster answers")
    lost = cluster_status(with_status(first), LOST, server="", away=[], now=T0 + 30)
    later = cluster_status(with_status(lost), LOST, server="", away=[], now=T0 + 90)
    assert (lost.reachable, lost.conditions[0].reason, lost.server) == ("False", "Unreachable", "https://there")
    assert later.conditions[0].last_transition_time.timestamp() == T0 + 30
    assert later.last_seen is not None
    assert later.last_seen.timestamp() == T0


def test_a_cluster_that_answers_is_written_once_a_minute() -> None:
    first = cluster_status(parse_remote_cluster(remote_cluster()), None, server="a", away=[], now=T0)
    assert cluster_status(with_status(first), None, server="a", away=[], now=T0 + 59) == first
    assert cluster_status(with_status(first), None, server="a", away=[], now=T0 + 60) != first
