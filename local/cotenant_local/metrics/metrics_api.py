"""Serves the metrics API to the API server, which has checked the rights; no other client has its certificate.

`python -m cotenant_local.metrics.metrics_api STATE`. The certificate is the front proxy's. Names, labels and
selectors are the API server's own: a query of some pods is passed on to it, and the figures are added to its answer.
"""

import datetime
import http.server
import json
import re
import socket
import ssl
import sys
import urllib.parse
from pathlib import Path
from typing import Any, Final

from cotenant_local.host.addresses import is_v6
from cotenant_local.host.api_client import Api, ApiError
from cotenant_local.host.cluster_folder import ClusterFolder
from cotenant_local.host.cluster_plan import ClusterPlan
from cotenant_local.metrics.collector import MetricsCollector
from cotenant_local.metrics.rates import Key, UsageRate

GROUP, VERSION = "metrics.k8s.io", "v1beta1"
PORT: Final = 4443
PREFIX = f"/apis/{GROUP}/{VERSION}"
PATH = re.compile(rf"{PREFIX}(?:/namespaces/(?P<namespace>[^/]+))?/(?P<kind>nodes|pods)(?:/(?P<name>[^/]+))?")
RESOURCES = [
    {"name": "nodes", "singularName": "", "namespaced": False, "kind": "NodeMetrics", "verbs": ["get", "list"]},
    {"name": "pods", "singularName": "", "namespaced": True, "kind": "PodMetrics", "verbs": ["get", "list"]},
]
Document = dict[str, Any]


class MetricsApi:
    """Documents by path; raises ApiError with the API server's own refusal, or 404."""

    def __init__(self, api: Api, collector: MetricsCollector) -> None:
        self._api, self._collector = api, collector

    def get(self, target: str) -> Document:
        path, _, query = target.partition("?")
        if path.rstrip("/") == PREFIX:
            return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": PREFIX[6:], "resources": RESOURCES}
        match = PATH.fullmatch(path)
        if match is None:
            raise ApiError(404, f"{path} is not part of {GROUP}")
        asked = {key: values[0] for key, values in urllib.parse.parse_qs(query).items() if key.endswith("Selector")}
        place = f"/namespaces/{match['namespace']}" if match["namespace"] else ""
        where = f"/api/v1{place}/{match['kind']}" + (f"/{match['name']}" if match["name"] else "")
        document = self._api.call("GET", f"{where}?{urllib.parse.urlencode(asked)}")
        measure = {"nodes": self._node, "pods": self._pod}[match["kind"]]
        if match["name"]:
            if (measured := measure(document)) is None:
                raise ApiError(404, f"{match['kind']} {match['name']} has not been measured yet")
            return measured
        items = [measured for item in document["items"] if (measured := measure(item))]
        kind = {"nodes": "NodeMetricsList", "pods": "PodMetricsList"}[match["kind"]]
        return {"kind": kind, "apiVersion": PREFIX[6:], "metadata": {}, "items": items}

    def _node(self, node: Document) -> Document | None:
        used = self._collector.nodes.get(node["metadata"]["name"], {}).get(())
        return {**_head("NodeMetrics", node, used), "usage": _amounts(used)} if used else None

    def _pod(self, pod: Document) -> Document | None:
        """None until all of its running containers have been measured."""
        meta, status = pod["metadata"], pod.get("status", {})
        known = self._collector.nodes.get(pod["spec"].get("nodeName", ""), {})
        statuses = [*status.get("containerStatuses", ()), *status.get("initContainerStatuses", ())]
        running = [one["name"] for one in statuses if "running" in one["state"]]
        keys: dict[str, Key] = {name: (meta["namespace"], meta["name"], name) for name in running}
        if not keys or any(key not in known for key in keys.values()):
            return None
        containers = [{"name": name, "usage": _amounts(known[key])} for name, key in keys.items()]
        oldest = min((known[key] for key in keys.values()), key=lambda used: used.at)
        return {**_head("PodMetrics", pod, oldest), "containers": containers}


def _head(kind: str, of: Document, used: UsageRate) -> Document:
    keep = ("name", "namespace", "labels", "creationTimestamp")
    moment = datetime.datetime.fromtimestamp(used.at, datetime.UTC)
    return {
        "kind": kind,
        "apiVersion": PREFIX[6:],
        "metadata": {key: of["metadata"][key] for key in keep if key in of["metadata"]},
        "timestamp": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "window": f"{used.window:.3f}s",
    }


def _amounts(used: UsageRate) -> Document:
    return {"cpu": f"{used.cpu}n", "memory": f"{used.memory // 1024}Ki"}


def handler(answers: MetricsApi) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 120

        def do_GET(self) -> None:
            try:
                code, document = 200, answers.get(self.path)
            except ApiError as error:
                code = error.status
                document = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": str(error)}
                document |= {"code": code, "reason": "NotFound" if code == 404 else "InternalError"}
            except OSError as error:
                code, document = 503, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": str(error)}
            body = json.dumps(document).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Logs no line per request."""

    return Handler


class Server(http.server.ThreadingHTTPServer):
    def __init__(self, address: tuple[str, int], answers: type[http.server.BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if is_v6(address[0]) else socket.AF_INET
        super().__init__(address, answers)


def listen(address: tuple[str, int], pki: Path, answers: MetricsApi) -> http.server.ThreadingHTTPServer:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(pki / "front-proxy-ca.crt"))
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_cert_chain(pki / "metrics-serving.crt", pki / "metrics-serving.key")
    server = Server(address, handler(answers))
    server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    return server


def main() -> None:
    state = ClusterFolder(Path(sys.argv[1]))
    plan = ClusterPlan.load(state.plan)
    collector, address = MetricsCollector(state, plan), plan.addresses.control_plane
    collector.start()
    answers = MetricsApi(Api.from_pki(address, 6443, state.pki, "metrics"), collector)
    listen((address, PORT), state.pki, answers).serve_forever()


if __name__ == "__main__":
    main()
