"""The page of one node: its GPUNode, and what jobs hold there."""

from __future__ import annotations

from cotenant.controller.client.kube import GPU_NODES, TRAINING_JOBS, Document
from cotenant.dashboard.access.sessions import Viewer
from cotenant.dashboard.pages import Drawn, Page, namespace_of, notes_of_nodes
from cotenant.dashboard.reading.caller_client import Scope
from cotenant.dashboard.reading.rows import job_row
from cotenant.dashboard.views.node import node_view
from cotenant.dashboard.views.wish import Wish


def node_page(name: str) -> Page:
    def draw(viewer: Viewer, wish: Wish, now: float) -> Drawn:
        def read(document: Document) -> Document:
            return document

        node = viewer.follow(Scope(GPU_NODES, name=name), read)
        jobs = viewer.follow(Scope(TRAINING_JOBS, namespace_of(viewer, wish)), job_row)
        view = node_view(node.value.get(name), jobs.value.values(), name, viewer.palette, now)
        return Drawn([node, jobs], lambda: {"view": view, "name": name}, notes_of_nodes(node, jobs))

    return Page(f"/nodes/{name}", name, "node.html", draw, is_filtered=False)
