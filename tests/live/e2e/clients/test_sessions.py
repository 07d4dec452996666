"""A session from its manifest to a cell in a real browser: JupyterLab of PyPI under a real kubelet.

JupyterLab is installed into a folder of the user's cache on first use; the cluster shows that folder in an image.
"""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import groupby
from typing import Any

import pytest

from tests.live.cli.dashboard.chromium import PROGRAM, Chromium, chromium
from tests.live.e2e.tenancy import CHECKOUT, SYSTEM, Document, Tenancy, product
from tests.live.waiting import timeout
from tests.support.package_folders import package_folder

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(600),
    pytest.mark.skipif(PROGRAM is None, reason="there is no chromium here (Debian: apt-get install chromium)"),
]
IMAGE = "example.com/jupyterlab"
JUPYTERLAB = ["jupyterlab==4.5.*"]
SHIFT = 8
CELL = "import os; open('kept.txt', 'w').write('kept'); print('this cell sees', os.environ['CUDA_VISIBLE_DEVICES'])"
CLAIM: Document = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "home", "namespace": "team-a"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "100Mi"}}},
}


@pytest.fixture(scope="module")
def notebooks() -> Iterator[Tenancy]:
    from cotenant_local.cluster import spec

    folder = str(package_folder("jupyterlab", JUPYTERLAB))
    env = {
        "PYTHONPATH": folder,
        "JUPYTER_PATH": f"{folder}/share/jupyter",
        "JUPYTER_CONFIG_PATH": f"{folder}/etc/jupyter",
        "JUPYTERLAB_DIR": f"{folder}/share/jupyter/lab",
    }  # where pip installs into a folder, they are not below the prefix of Python
    images = {IMAGE: {"paths": [folder], "env": env}}
    node = {"name": "node", "cpu": 2, "gpus": {"count": 2, "class": "H100", "memory": "80Gi"}}
    with product("sessions", spec.parse({"nodes": [node], "images": images}, "this test")) as tenancy:
        yield tenancy


def session(name: str, **spec: Any) -> Document:
    usual = {
        "application": "JupyterLab",
        "queue": "team-a",
        "gpu": {"memoryFraction": "0.25"},
        "resources": {"cpu": "200m", "memory": "1Gi"},
        "gracePeriod": "5s",
    }
    return {
        "apiVersion": "cotenant.dev/v1beta1",
        "kind": "Session",
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": usual | spec,
    }


def status(tenancy: Tenancy, name: str) -> Document:
    found: Document = tenancy.get("session", name, "-n", "team-a").get("status", {})
    return found


def wait_phase(tenancy: Tenancy, name: str, phase: str, seconds: float = 120) -> Document:
    def there() -> Document | None:
        found = status(tenancy, name)
        return found if found.get("phase") == phase else None

    found: Document = tenancy.wait(there, seconds=seconds, what=f"session {name} is {phase}")
    return found


def in_pod(tenancy: Tenancy, name: str, *words: str) -> str:
    (pod,) = tenancy.get("pods", "-n", "team-a", "-l", f"cotenant.dev/job={name}-session")["items"]
    return tenancy.cluster.kubectl("exec", "-n", "team-a", pod["metadata"]["name"], "--", *words)


def verb(tenancy: Tenancy, *words: str) -> list[str]:
    return [sys.executable, "-m", "cotenant", "session", *words, "--kubeconfig", str(tenancy.cluster.kubeconfig)]


def run_verb(tenancy: Tenancy, *words: str) -> str:
    done = subprocess.run(verb(tenancy, *words), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def opened(tenancy: Tenancy, name: str) -> Iterator[str]:
    """Address that `session open` prints, for as long as the port is forwarded."""
    process = subprocess.Popen(verb(tenancy, "open", f"team-a/{name}"), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line.startswith("Forwarding from"):
                break
            if found := re.search(r"http://\S+", line):
                address = found[0]
        yield address
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=20)


FOCUS = "document.querySelector('.jp-Notebook .cm-content').focus()"
TEXT = "document.querySelector('.jp-Notebook .cm-content').textContent"
OUTPUT = "document.querySelector('.jp-OutputArea-output')"


async def type_into_first_cell(tab: Chromium, text: str) -> None:
    """Type as a person does: if nothing appears, click into the cell and type again."""
    for _ in range(5):
        await tab.evaluate(FOCUS)
        if not await tab.evaluate(TEXT):
            await tab.call("Input.insertText", text=text)
        with suppress(TimeoutError):
            return await tab.until(f"{TEXT}.includes('kept.txt')", most_s=5)
    raise AssertionError(f"the first cell reads {await tab.evaluate(TEXT)!r}")


async def run_cell(tab: Chromium, text: str) -> str:
    """A new notebook by the launcher, one cell typed and run by Shift and Enter; what stands below it then."""
    card = '.jp-LauncherCard[data-category="Notebook"]'
    await tab.until(f"document.querySelector('{card}') !== null", most_s=90)
    await tab.evaluate(f"document.querySelector('{card}').click()")
    await tab.until("document.querySelector('.jp-Notebook .cm-content') !== null", most_s=60)
    idle = "document.querySelector('.jp-Notebook-ExecutionIndicator')?.dataset.status === 'idle'"
    await tab.until(idle, most_s=60)
    for _ in range(5):  # who sees that nothing came of it does it again: JupyterLab may move the focus between two keys
        await type_into_first_cell(tab, text)
        for kind in ("keyDown", "keyUp"):
            key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13}
            await tab.call("Input.dispatchKeyEvent", type=kind, modifiers=SHIFT, **key)
        with suppress(TimeoutError):
            await tab.until(f"Boolean({OUTPUT}?.textContent.trim())", most_s=20)
            return str(await tab.evaluate(f"{OUTPUT}.textContent"))
    raise AssertionError(f"{await tab.evaluate('document.body.innerText')}\n{tab.complaints}")


async def test_a_notebook_runs_a_cell_is_suspended_when_idle_and_goes_on_with_its_file(notebooks: Tenancy) -> None:
    notebooks.apply(CLAIM, session("nb", image=IMAGE, volume={"claimName": "home"}, idleTimeout="10m"))
    port = wait_phase(notebooks, "nb", "Running")["port"]
    in_pod(notebooks, "nb", "python3", "-c", f"import socket; socket.create_connection(('127.0.0.1', {port}), 1)")
    with opened(notebooks, "nb") as address:
        async with chromium() as tab:
            await tab.look()
            await tab.open(address)
            output = await run_cell(tab, CELL)
            granted = notebooks.job("nb-session")["status"]["placement"]["nodes"][0]["ranks"][0]["gpus"][0]["uuid"]
            assert output.strip() == f"this cell sees {granted}"
            shorter = '{"spec": {"idleTimeout": "60s"}}'
            notebooks.cluster.kubectl("patch", "session", "nb", "-n", "team-a", "--type=merge", "-p", shorter)
            wait_phase(notebooks, "nb", "Suspended")  # with its page still open
    events = notebooks.get("events", "-n", "team-a", "--field-selector", "involvedObject.kind=Session")["items"]
    reasons = [one["reason"] for one in sorted(events, key=lambda one: one["eventTime"])]
    # Use that is reported after a warning withdraws it, so a second warning may follow.
    assert [reason for reason, _ in groupby(reasons)] == ["SuspensionWarning", "IdleTimeout"]
    assert notebooks.job("nb-session")["status"]["phase"] == "Suspended"
    assert "waits for its place again" in run_verb(notebooks, "resume", "team-a/nb")
    wait_phase(notebooks, "nb", "Running")
    assert in_pod(notebooks, "nb", "cat", "/home/session/kept.txt") == "kept"
    assert "team-a/nb" in run_verb(notebooks, "list", "-n", "team-a")
    run_verb(notebooks, "stop", "team-a/nb")
    wait_phase(notebooks, "nb", "Suspended")


WORKS: Document = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "works", "namespace": "team-a"}}
STRANGER: Document = {
    "apiVersion": "v1",
    "kind": "ServiceAccount",
    "metadata": {"name": "stranger", "namespace": "team-b"},
}
PAGE = "/sessions/team-a/web"


def may_edit(account: Document) -> Document:
    subject = {"kind": "ServiceAccount"} | account["metadata"]
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": account["metadata"],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [subject],
    }


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@contextmanager
def dashboard(tenancy: Tenancy) -> Iterator[str]:
    """Address of the dashboard that the chart installs, with the port of sessions forwarded beside its own."""
    pages, sessions = free_port(), free_port()
    chart = ["upgrade", "cotenant", str(CHECKOUT / "charts" / "cotenant"), "-n", SYSTEM, "--reuse-values"]
    values = f"--set=dashboard.enabled=true,dashboard.sessions.host=localhost:{sessions}"
    subprocess.run(tenancy.cluster.command("helm", *chart, values, "--wait", timeout(180)), check=True)
    ports = ("service/cotenant-dashboard", f"{pages}:443", f"{sessions}:8444")
    forward = tenancy.cluster.command("kubectl", "port-forward", "-n", SYSTEM, *ports)
    process = subprocess.Popen(forward, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if f":{sessions}" in line:
                break
        threading.Thread(target=process.stdout.read, daemon=True).start()
        yield f"https://localhost:{pages}"
    finally:
        process.terminate()
        process.wait(timeout=20)


async def log_in(tab: Chromium, root: str, token: str) -> None:
    await tab.open(f"{root}/login")
    await tab.evaluate(f"document.querySelector('[name=token]').value = {token!r}")
    await tab.evaluate("document.querySelector('form').requestSubmit()")
    await tab.until("location.pathname === '/'")


async def press_open(tab: Chromium, root: str) -> None:
    """Press Open, which opens in the same tab here because the test looks at that."""
    await tab.open(root + PAGE)
    await tab.until("document.querySelector('form.answer button') !== null")
    # In one turn of the page: it may show itself anew between two, with the form as it was.
    form = "document.querySelector('form.answer')"
    await tab.evaluate(f"{form}.removeAttribute('target'), {form}.querySelector('button').click()")


async def test_a_session_is_opened_through_the_dashboard_by_whoever_may_reach_it(notebooks: Tenancy) -> None:
    notebooks.apply(session("web", image=IMAGE), WORKS, STRANGER, may_edit(WORKS), may_edit(STRANGER))
    wait_phase(notebooks, "web", "Running")
    works, stranger = (
        notebooks.cluster.kubectl(
            "create", "token", one["metadata"]["name"], "-n", one["metadata"]["namespace"]
        ).strip()
        for one in (WORKS, STRANGER)
    )
    api = "fetch('/sessions/team-a/web/app/api/kernels')"
    with dashboard(notebooks) as root:
        async with chromium("--ignore-certificate-errors") as tab:
            await tab.look()
            await log_in(tab, root, works)
            await press_open(tab, root)
            output = await run_cell(tab, CELL)
            granted = notebooks.job("web-session")["status"]["placement"]["nodes"][0]["ranks"][0]["gpus"][0]["uuid"]
            assert output.strip() == f"this cell sees {granted}"
            assert await tab.evaluate("document.cookie.includes('cotenant')") is False
            mine = await tab.evaluate("location.href")
            async with chromium("--ignore-certificate-errors") as other:
                await other.look()
                await other.open(mine)
                assert "You have not opened this session" in await other.evaluate("document.body.textContent")
                await log_in(other, root, stranger)
                await other.open(root + PAGE)
                await other.until("document.body?.textContent.includes('or you may not see it')")
                await other.evaluate(
                    "document.body.innerHTML = '<form method=post id=forged></form>'; document.forms.forged.submit()"
                )
                await other.until("document.body?.textContent.includes('It was not opened')")
            assert await tab.evaluate(f"{api}.then((answer) => answer.status)") == 200
            notebooks.cluster.kubectl("delete", "serviceaccount", "works", "-n", "team-a")
            await tab.until(f"{api}.then((answer) => answer.status === 401)", most_s=240)
    run_verb(notebooks, "stop", "team-a/web")


def test_a_session_whose_pod_and_operators_are_killed_runs_again(notebooks: Tenancy) -> None:
    notebooks.apply(session("sh", application="Shell", resources={"cpu": "50m", "memory": "256Mi"}))
    first = wait_phase(notebooks, "sh", "Running")
    kill = ("delete", "pod", "--force", "--grace-period=0", "--wait=false")
    notebooks.cluster.kubectl(*kill, "-n", "cotenant-system", "-l", "app.kubernetes.io/component=operator")
    notebooks.cluster.kubectl("delete", "pod", "-n", "team-a", "-l", "cotenant.dev/job=sh-session", "--wait=false")

    def runs_again() -> bool:
        found = status(notebooks, "sh")
        return found.get("phase") == "Running" and found["attempt"] > first["attempt"]

    notebooks.wait(runs_again, seconds=180, what="the session runs in another attempt")
    notebooks.cluster.kubectl("delete", "session", "sh", "-n", "team-a")
    gone = ("get", "pods", "-n", "team-a", "-l", "cotenant.dev/job=sh-session", "-o", "name")
    notebooks.wait(lambda: not notebooks.cluster.kubectl(*gone), what="its job goes with it")
