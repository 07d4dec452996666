"""Pages of a large cluster: CPU of the first byte and of an update, with 10,000 jobs and 1,000 nodes of 8 GPUs.

    python -m bench.parts.dashboard [--jobs 10000] [--nodes 1000]

First: until the first byte of the first page; objects that are not read by then follow as updates. Cold: until the
whole page is there, with the API server's lists decoded from bytes, read into rows and drawn. Warm: every later page.
Update: one changed job, from the bytes of its event to the page that is sent. Times are CPU of this process, so they
hold on a busy machine. The time to decode the same bytes alone stands beside them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from cotenant.controller.client.kube import GPU_NODES, TRAINING_JOBS, Document, Listing, WatchEvent
from cotenant.dashboard.access.sessions import Viewer
from cotenant.dashboard.pages import PAGES
from cotenant.dashboard.reading.caller_client import PAGE, DeniedError, Scope
from cotenant.dashboard.server import FIRST_S
from cotenant.dashboard.updates import Drawing
from cotenant.dashboard.views.wish import Wish
from tests.cli.dashboard.fake_caller import FakeCaller
from tests.cli.dashboard.played_cluster import gpu_node, jobs
from tests.support.fake_kube import FakeKube


class Encoded(FakeCaller):
    """A caller whose lists and events come as bytes."""

    def __init__(self, listed: dict[str, list[bytes]]) -> None:
        super().__init__(FakeKube())
        self._listed = listed
        self.events: asyncio.Queue[bytes] = asyncio.Queue()

    async def pages(self, scope: Scope) -> AsyncGenerator[Listing, None]:
        if scope.resource.plural not in self._listed:
            raise DeniedError(403, "not in this measure")
        for page in self._listed[scope.resource.plural]:
            yield Listing(tuple(orjson.loads(page)["items"]), 1)

    async def watch(self, scope: Scope, version: int) -> AsyncGenerator[Sequence[WatchEvent], None]:
        while True:
            event = await self.events.get() if scope.resource == TRAINING_JOBS else await asyncio.Future()
            yield [WatchEvent("MODIFIED", orjson.loads(event)["object"], version + 1)]


def large(number: int) -> Iterator[Document]:
    """`number` jobs of a realistic size: with specs, conditions and managed fields."""
    pattern = list(jobs())
    fill = {"managedFields": [{"manager": "cotenant", "fieldsV1": {f"f:{n}": {"f:status": {}} for n in range(40)}}]}
    for at in range(number):
        document = pattern[at % len(pattern)]
        metadata = document["metadata"] | fill | {"name": f"job-{at}", "namespace": f"team-{at % 200}", "uid": f"u{at}"}
        spec = document["spec"] | {"runtime": {"image": "registry/train:1", "command": ["python", "train.py"] * 8}}
        yield {
            "apiVersion": "cotenant.dev/v1beta1",
            "kind": "TrainingJob",
            **document,
            "metadata": metadata,
            "spec": spec,
        }


def encoded(documents: Sequence[Document]) -> list[bytes]:
    return [orjson.dumps({"items": documents[at : at + PAGE]}) for at in range(0, len(documents), PAGE)]


def cpu_ms(begin: float) -> float:
    return round(1000 * (time.process_time() - begin), 1)


async def measure(number_of_jobs: int, number_of_nodes: int) -> list[dict[str, Any]]:
    documents = list(large(number_of_jobs))
    listed = {
        TRAINING_JOBS.plural: encoded(documents),
        GPU_NODES.plural: encoded([gpu_node(number) for number in range(number_of_nodes)]),
    }
    begin = time.process_time()
    for encoded_page in (one for pages in listed.values() for one in pages):
        orjson.loads(encoded_page)
    decoding = cpu_ms(begin)
    rows = [{"page": "(decoding alone)", "first": None, "cold": decoding, "warm": None, "update": None, "kib": None}]
    for page in (one for one in PAGES if one.path != "/queues"):
        caller = Encoded(listed)
        viewer = Viewer(caller, "alice")
        drawing = Drawing(viewer, page, Wish(), time.time)
        begin = time.process_time()
        await drawing.settle(FIRST_S)
        drawing.draw()
        first = cpu_ms(begin)
        await drawing.settle(120)
        drawing.draw()
        cold = cpu_ms(begin)
        begin = time.process_time()
        markup = drawing.draw()
        warm = cpu_ms(begin)
        event = orjson.dumps({"object": documents[0] | {"status": {"phase": "Running", "message": "changed"}}})
        begin = time.process_time()
        caller.events.put_nowait(event)
        await drawing.news(30)
        drawing.draw()
        rows.append(
            {
                "page": page.path,
                "first": first,
                "cold": cold,
                "warm": warm,
                "update": cpu_ms(begin),
                "kib": len(markup) // 1024,
            }
        )
        await viewer.close()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = asyncio.run(measure(args.jobs, args.nodes))
    print(f"{args.jobs} jobs, {args.nodes} nodes; CPU in ms")
    print(f"{'page':<18}{'first':>9}{'cold':>9}{'warm':>9}{'update':>9}{'KiB':>7}")
    for row in rows:
        print(
            f"{row['page']:<18}"
            + "".join(
                f"{'' if row[key] is None else row[key]:>{wide}}"
                for key, wide in (("first", 9), ("cold", 9), ("warm", 9), ("update", 9), ("kib", 7))
            )
        )
    if args.json:
        args.json.write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
