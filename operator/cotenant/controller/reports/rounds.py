"""Rounds beside the scheduling loop: a look that is repeated, and whose failures hold nobody up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from cotenant.controller.client.kube import FencedError, UnreachableError
from cotenant.controller.leader.leadership import Leadership
from cotenant.controller.telemetry.metrics import Metrics

log = logging.getLogger(__name__)

FOLLOWER_S: Final = 1.0
"""Longest pause of a replica that does not lead, so that a new leader looks soon."""


async def repeat(
    look: Callable[[], Awaitable[None]],
    every_s: float,
    stage: str,
    metrics: Metrics,
    leadership: Leadership | None = None,
) -> None:
    """Look, pause, and look again; with `leadership`, only while it is held. The task names the look in the log, and
    `stage` in the metric of contained failures.
    """
    task = asyncio.current_task()
    name = task.get_name() if task is not None else stage
    while True:
        looks = leadership is None or leadership.held
        try:
            if looks:
                await look()
        except FencedError:
            log.debug("%s: another replica leads", name)
        except UnreachableError as error:
            log.warning("%s: %s; tried again soon", name, error)
        except Exception:
            metrics.failures_contained.labels(stage).inc()
            log.exception("%s: a look has failed", name)
        await asyncio.sleep(every_s if looks else min(every_s, FOLLOWER_S))
