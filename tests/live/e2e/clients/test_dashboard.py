"""The dashboard against a real API server: on one's own machine, and as the chart runs it, under a real kubelet."""

from __future__ import annotations

import http.client
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlencode, urlsplit

import pytest

from tests.live.e2e.tenancy import CHECKOUT, SYSTEM, Tenancy, training_job
from tests.live.waiting import timeout

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

VIEW = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "RoleBinding",
    "metadata": {"name": "looks", "namespace": "team-a"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
    "subjects": [{"kind": "ServiceAccount", "name": "looks", "namespace": "team-a"}],
}


@contextmanager
def started(*command: str) -> Iterator[re.Match[str]]:
    """A process that says on its first lines where it listens: `http://HOST:PORT/…` or `127.0.0.1:PORT`."""
    # `env` restores SIGINT: if the tests run in the background of a shell, it is ignored, and their children would
    # inherit that.
    heeding = ["env", "--default-signal=INT", *command]
    process = subprocess.Popen(heeding, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if found := re.search(r"127\.0\.0\.1:([0-9]+)(/\S*)?", line):
                yield found
                break
        else:
            pytest.fail(f"{command} ended and said nothing of where it listens")
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=20)


class Browser:
    """One session: cookies, and no redirections that are followed."""

    def __init__(self, port: int, *, tls: bool, host: str = "") -> None:
        self._port, self._tls, self._host, self._cookie = port, tls, host, ""
        self.location = ""
        """Where the last answer leads."""

    def ask(self, method: str, path: str, **form: str) -> tuple[int, str]:
        connection: http.client.HTTPConnection = (
            http.client.HTTPSConnection("127.0.0.1", self._port, timeout=30, context=ssl._create_unverified_context())
            if self._tls
            else http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        )
        headers = {"Cookie": self._cookie} if self._cookie else {}
        headers |= {"Host": self._host} if self._host else {}
        body = urlencode(form) if form else None
        if body:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        if given := answer.headers.get("Set-Cookie"):
            self._cookie = given.partition(";")[0]
        text, self.location = answer.read().decode(), answer.headers.get("Location", "")
        connection.close()
        return answer.status, text


def waiting_jobs(tenancy: Tenancy) -> None:
    for namespace in ("team-a", "team-b"):
        tenancy.apply(training_job(f"shown-{namespace}", namespace, suspend=True))
        tenancy.wait_phase(f"shown-{namespace}", "Suspended", namespace=namespace)


def page(tenancy: Tenancy, browser: Browser, path: str, wanted: str) -> str:
    """The page, as soon as it shows the text."""

    def whole() -> str:
        status, text = browser.ask("GET", path)
        assert status == 200, text
        return text if wanted in text else ""

    found: str = tenancy.wait(whole, what=f"{path} shows {wanted}")
    return found


def test_an_administrator_sees_every_page_with_a_kubeconfig(tenancy: Tenancy) -> None:
    waiting_jobs(tenancy)
    command = [sys.executable, "-m", "cotenant", "dashboard", "-A", f"--kubeconfig={tenancy.cluster.kubeconfig}"]
    with started(*command) as listens:
        stranger, browser = Browser(int(listens[1]), tls=False), Browser(int(listens[1]), tls=False)
        assert stranger.ask("GET", "/")[0] == 303
        assert browser.ask("GET", listens[2])[0] == 303
        assert stranger.ask("GET", listens[2])[0] == 403, "the address is good once"
        assert "team-a" in page(tenancy, browser, "/queues", "team-b")
        node = re.search(r'href="(/nodes/[^"]+)"', page(tenancy, browser, "/", "/nodes/"))
        assert node is not None
        page(tenancy, browser, node[1], "H100")
        page(tenancy, browser, "/gpus", "H100")
        assert "shown-team-b" in page(tenancy, browser, "/line?show=held&namespace=*", "shown-team-a")
        assert "Suspended" in page(tenancy, browser, "/jobs/team-a/shown-team-a", "shown-team-a")
        for path in ("/timeline", "/reliability", "/showback"):
            assert browser.ask("GET", path)[0] == 200, path


def test_an_administrator_approves_a_request_for_quota_on_its_page(tenancy: Tenancy) -> None:
    request = {
        "apiVersion": "cotenant.dev/v1beta1",
        "kind": "QuotaRequest",
        "metadata": {"name": "by-page", "namespace": "team-a"},
        "spec": {"quotas": [{"gpus": 1}], "until": "2090-01-01T00:00:00Z", "reason": "camera-ready"},
    }
    tenancy.apply(request)
    command = [sys.executable, "-m", "cotenant", "dashboard", "-A", f"--kubeconfig={tenancy.cluster.kubeconfig}"]
    with started(*command) as listens:
        browser = Browser(int(listens[1]), tls=False)
        assert browser.ask("GET", listens[2])[0] == 303
        page(tenancy, browser, "/requests", "team-a/by-page")
        shown = page(tenancy, browser, "/requests/team-a/by-page", ">Approve<")
        form = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', shown))
        assert browser.ask("POST", "/requests/team-a/by-page", decision="Approved", message="go", **form)[0] == 303
        page(tenancy, browser, "/requests/team-a/by-page", ">Revoke<")
    status = tenancy.get("quotarequest", "by-page", "-n", "team-a")["status"]
    assert (status["phase"], status["approval"]["message"]) == ("Granted", "go")
    tenancy.cluster.kubectl("delete", "quotarequest", "by-page", "-n", "team-a")


def test_a_program_of_a_session_is_opened_with_a_kubeconfig(tenancy: Tenancy) -> None:
    """On a laptop each session has a host name below localhost."""
    serves = ["python", "-m", "http.server", "9000", "--bind", "127.0.0.1"]
    spec = {
        "application": "Program",
        "program": {"command": serves, "port": 9000},
        "queue": "team-a",
        "gpu": {"memoryFraction": "0.25"},
        "resources": {"cpu": "100m", "memory": "256Mi"},
    }
    metadata = {"name": "files", "namespace": "team-a"}
    tenancy.apply({"apiVersion": "cotenant.dev/v1beta1", "kind": "Session", "metadata": metadata, "spec": spec})
    command = [sys.executable, "-m", "cotenant", "dashboard", "-A", f"--kubeconfig={tenancy.cluster.kubeconfig}"]
    with started(*command) as listens:
        browser = Browser(int(listens[1]), tls=False)
        assert browser.ask("GET", listens[2])[0] == 303
        page(tenancy, browser, "/sessions", "team-a/files")
        page(tenancy, browser, "/sessions/team-a/files", ">Open</button>")

        def address() -> str:
            """Wait for the file that the program writes once it listens."""
            assert browser.ask("POST", "/sessions/team-a/files")[0] == 303
            return browser.location if browser.location.startswith("http://files-") else ""

        found = urlsplit(tenancy.wait(address, what="the session is opened"))
        assert found.hostname is not None
        assert found.hostname.endswith(".localhost")
        inside = Browser(found.port or 0, tls=False, host=found.netloc)
        assert inside.ask("GET", "/")[0] == 401
        assert inside.ask("GET", f"{found.path}?{found.query}")[0] == 303
        status, text = inside.ask("GET", "/")
        assert (status, "Directory listing" in text) == (200, True)
        assert browser.ask("POST", "/logout")[0] == 303
        assert inside.ask("GET", "/")[0] == 401
    tenancy.cluster.kubectl("delete", "session", "files", "-n", "team-a")


def test_in_the_cluster_a_tenants_token_opens_what_the_tenant_may_see(tenancy: Tenancy) -> None:
    waiting_jobs(tenancy)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "looks", "namespace": "team-a"}}
    tenancy.apply(account, VIEW)
    upgrade = ["upgrade", "cotenant", str(CHECKOUT / "charts" / "cotenant"), "-n", SYSTEM, "--reuse-values"]
    enabled = ["--set=dashboard.enabled=true", "--wait", timeout(180)]
    subprocess.run(tenancy.cluster.command("helm", *upgrade, *enabled), check=True, capture_output=True, text=True)
    token = tenancy.cluster.kubectl("create", "token", "looks", "-n", "team-a").strip()
    forward = tenancy.cluster.command("kubectl", "port-forward", "-n", SYSTEM, "service/cotenant-dashboard", ":443")
    with started(*forward) as listens:
        browser = Browser(int(listens[1]), tls=True)
        assert browser.ask("GET", "/healthz") == (200, "ok")
        assert browser.ask("POST", "/login", token="no-token")[0] == 403
        assert browser.ask("POST", "/login", token=token)[0] == 303
        text = page(tenancy, browser, "/line?show=held", "shown-team-a")
        assert "shown-team-b" not in text
        for path in ("/", "/queues", "/gpus", "/line", "/timeline", "/history", "/reliability", "/showback"):
            for query in ("?show=held", "?show=held&namespace=*", "?show=held&namespace=team-b"):
                status, text = browser.ask("GET", path + query)
                assert (status, "shown-team-b" in text) == (200, False), path + query
        status, other = browser.ask("GET", "/jobs/team-b/shown-team-b")
        assert status == 200
        assert "held back" not in other
        assert browser.ask("POST", "/logout")[0] == 303
        assert browser.ask("GET", "/")[0] == 303
