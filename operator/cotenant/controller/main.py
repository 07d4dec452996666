"""The operator's process: a replica under supervision. When one of its parts ends, all end, and the log names it.

SIGTERM lets the writes under way finish, gives the Lease back and exits 0; any part that ends by itself makes the exit
code 1, so that Kubernetes starts the pod anew.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import tempfile
import time
from collections.abc import Coroutine, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from aiohttp import web

from cotenant.controller.client.fence import Fence
from cotenant.controller.client.kube import (
    Kube,
)
from cotenant.controller.client.rest import RestKube, RetryPolicy
from cotenant.controller.composites.remote_clusters.connection import rest_connect
from cotenant.controller.composites.remote_clusters.remote_questions import RemoteQuestions
from cotenant.controller.leader.definitions import Definitions
from cotenant.controller.leader.election import LeaderElector
from cotenant.controller.leader.leadership import Leadership
from cotenant.controller.leader.lease_thread import LeaseThread
from cotenant.controller.manifests.cluster_domain import with_domain
from cotenant.controller.query_api.access import CallerAccess
from cotenant.controller.query_api.answers import Answers
from cotenant.controller.query_api.api_service import ApiServiceKeeper
from cotenant.controller.query_api.endpoint import LOOK_S, LeaderEndpoint
from cotenant.controller.query_api.own_certificate import OwnCertificate
from cotenant.controller.query_api.record_answers import RecordAnswers
from cotenant.controller.query_api.server import QueryServer
from cotenant.controller.replica import Operator
from cotenant.controller.reports import certificate_secrets
from cotenant.controller.reports.certificate_secrets import CertificateSecrets
from cotenant.controller.reports.metrics_access import MetricsAccess
from cotenant.controller.reports.rounds import repeat
from cotenant.controller.settings import Settings
from cotenant.controller.telemetry import metrics_server, probes
from cotenant.controller.telemetry.metrics import Metrics
from cotenant.serving import served_secrets
from cotenant.serving.certificate import ServingCertificate

log = logging.getLogger(__name__)

STOP_S = 5.0


async def run(settings: Settings) -> int:
    """Run until a signal (0) or until a part fails (1)."""
    metrics, settings = Metrics(), with_domain(settings, _resolv_conf())
    lease_kube = RestKube(in_flight=2, on_call=metrics.count_call, retry=RetryPolicy(attempts=2, call_timeout_s=3.0))
    elector = LeaderElector(
        lease_kube, namespace=settings.namespace, name=settings.lease_name, identity=settings.identity
    )
    leadership = Leadership(lambda: elector.is_leader)
    fence = Fence(lambda: leadership.held)
    reviews = RestKube(in_flight=2, on_call=metrics.count_call, retry=RetryPolicy(attempts=1, call_timeout_s=5.0))
    async with (
        reviews as review_kube,
        RestKube(in_flight=settings.writes_in_flight, on_call=metrics.count_call, before_write=fence.check) as kube,
    ):
        connect = rest_connect(fence.check)
        operator = Operator(kube, leadership, settings, metrics, connect=connect)
        definitions = Definitions(review_kube)
        stopped = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        folder = settings.metrics_certificate
        certificate = ServingCertificate(Path(folder), may_come_later=True) if folder else None
        servers = [
            await probes.serve(
                settings.host,
                settings.port,
                alive=lambda: "" if definitions.problem else operator.alive(),
                ready=lambda: definitions.problem or operator.ready(),
            ),
            await _serve_metrics(settings, metrics, review_kube, certificate),
        ]
        try:
            await _until(definitions.wait(), stopped)
            if stopped.is_set():
                return 0
            operator.loop.last_alive = time.monotonic()
            more = _serve_questions(operator, review_kube) if settings.serves_questions else {}
            if certificate is not None:
                more["certificate"] = certificate.keep_fresh()
            if secrets := served_secrets.read(settings.certificate_secrets):
                keeper = CertificateSecrets(kube=kube, secrets=secrets)
                more["certificates"] = repeat(
                    keeper.look, certificate_secrets.LOOK_S, "Certificates", metrics, leadership
                )
            return await _supervise(operator, LeaseThread(lease_kube, elector), fence, stopped, more)
        finally:
            for server in servers:
                await server.cleanup()


def _resolv_conf() -> str:
    try:
        return Path("/etc/resolv.conf").read_text(errors="replace")
    except OSError:
        return ""


async def _until(part: Coroutine[Any, Any, None], stopped: asyncio.Event) -> None:
    """Return once this part has ended, or is not wanted any more."""
    waiting = [asyncio.ensure_future(part), asyncio.ensure_future(stopped.wait())]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    done, _ = await asyncio.wait(waiting)
    for task in done:
        if not task.cancelled():
            task.result()


async def _serve_metrics(
    settings: Settings, metrics: Metrics, kube: Kube, certificate: ServingCertificate | None
) -> web.AppRunner:
    return await metrics_server.serve(
        (settings.host, settings.metrics_port),
        metrics,
        access=MetricsAccess(kube).access if settings.metrics_readers == "authorized" else None,
        certificate=certificate,
    )


def _serve_questions(operator: Operator, review_kube: Kube) -> dict[str, Coroutine[Any, Any, None]]:
    """The parts that answer questions, by name."""
    settings, access = operator.settings, CallerAccess(review_kube)
    own = None
    if not settings.query_certificate:
        own = OwnCertificate(Path(tempfile.mkdtemp(prefix="cotenant-query-")), settings.query_server_name)
        own.bundle()
    answers = Answers(
        cache=operator.cache,
        questions=operator.questions,
        access=access,
        leadership=operator.leadership,
        reserve_mib=settings.reserve_head_mib,
        labelled_only=settings.tenant_namespaces == "labelled",
    )
    server = QueryServer(
        kube=review_kube,
        answers=answers,
        records=RecordAnswers(recorder=operator.decision_recorder, access=access),
        access=access,
        address=(settings.host, settings.query_port),
        certificate=own.folder if own else Path(settings.query_certificate),
        more=RemoteQuestions(pods=operator.remote_clusters.pods()).routes(),
    )
    endpoint = LeaderEndpoint(
        kube=operator.kube,
        namespace=settings.namespace,
        address=settings.query_address,
        port=settings.query_port,
    )
    api_service = ApiServiceKeeper(
        kube=operator.kube,
        port=settings.query_port,
        recorder=operator.event_recorder,
        metrics=operator.metrics,
        leadership=operator.leadership,
        own=own,
    )
    metrics, leadership = operator.metrics, operator.leadership
    return {
        "questions": server.run(),
        "endpoint": repeat(endpoint.publish, LOOK_S, "Endpoint", metrics, leadership),
        "APIService": repeat(api_service.look, LOOK_S, "APIService", metrics, leadership),
    }


async def _supervise(
    operator: Operator,
    lease: LeaseThread,
    fence: Fence,
    stopped: asyncio.Event,
    more: Mapping[str, Coroutine[Any, Any, None]] = MappingProxyType({}),
) -> int:
    coroutines = {**operator.tasks(), **more, "lease": lease.run(operator.leadership.changed)}
    parts = {asyncio.create_task(part, name=name): name for name, part in coroutines.items()}
    signalled = asyncio.create_task(stopped.wait(), name="signal")
    done, _ = await asyncio.wait({signalled, *parts}, return_when=asyncio.FIRST_COMPLETED)
    failed = [task for task in parts if task in done]
    for task in failed:  # never by themselves, unless by an error
        log.critical("%s has ended; the operator stops", parts[task], exc_info=task.exception())
    signalled.cancel()
    for task in parts:
        task.cancel()
    await asyncio.wait(parts, timeout=STOP_S)
    await operator.loop.stop()  # the Lease is still held and renewed while the last writes end
    await fence.settle()
    await lease.stop()
    return 1 if failed else 0
