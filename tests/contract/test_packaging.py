"""One wheel and its extras: what is in the wheel, what each extra can import, that versions and names agree."""

import json
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml

import cotenant

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "cotenant": ROOT / "operator" / "cotenant",
    "cotenant_worker": ROOT / "worker" / "cotenant_worker",
    "cotenant_agent": ROOT / "worker" / "cotenant_agent",
    "cotenant_local": ROOT / "local" / "cotenant_local",
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def modules_of(package: str, *skipped: str) -> list[str]:
    folder = PACKAGES[package]
    found = []
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        name = ".".join((package, *parts)).removesuffix(".__init__")
        regular = all((folder.joinpath(*parts[:depth]) / "__init__.py").exists() for depth in range(len(parts)))
        if regular and not name.endswith(".__main__") and not name.startswith(skipped):
            found.append(name)
    return found


SHARED = ["cotenant", "cotenant.names", "cotenant.contract"]
LOCAL_VERBS = [module for module in modules_of("cotenant_local") if module.startswith("cotenant_local.cli")]
EXTRAS = {
    "operator": modules_of("cotenant", "cotenant.mcp.server") + LOCAL_VERBS,
    "agent": SHARED
    + modules_of("cotenant_agent")
    + [m for m in modules_of("cotenant") if m.startswith("cotenant.cli")],
    "worker": SHARED + modules_of("cotenant_worker"),
    "mcp": [module for module in modules_of("cotenant") if module.startswith(("cotenant.sdk", "cotenant.mcp"))],
}


def packages_in(requirements: str) -> set[str]:
    lines = (ROOT / "requirements" / f"{requirements}.txt").read_text().splitlines()
    return {re.sub(r"[-_.]+", "-", line.split("==")[0]).lower() for line in lines if re.match(r"[A-Za-z0-9]", line)}


@pytest.mark.parametrize("extra", EXTRAS)
def test_every_module_of_a_room_imports_with_the_packages_of_its_extra_alone(extra: str) -> None:
    child = Path(__file__).parent / "extra_child.py"
    command = [sys.executable, str(child), str(ROOT / "requirements" / f"{extra}.txt"), *EXTRAS[extra]]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {}


def test_the_check_above_would_notice_a_foreign_import() -> None:
    child = Path(__file__).parent / "extra_child.py"
    command = [
        sys.executable,
        str(child),
        str(ROOT / "requirements" / "agent.txt"),
        "cotenant.controller.informers.kopf_feed",
        "cotenant.names",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert json.loads(done.stdout) == {
        "cotenant.controller.informers.kopf_feed": "ModuleNotFoundError: No module named 'kopf'"
    }


@pytest.mark.parametrize(
    ("extra", "never"),
    [
        ("operator", {"ray", "torch", "nvidia-ml-py", "scikit-learn", "grpcio"}),
        ("agent", {"ray", "torch", "kopf", "scikit-learn", "grpcio-tools"}),
        ("worker", {"kopf", "kubernetes", "nvidia-ml-py"}),
    ],
)
def test_an_extra_does_not_bring_what_belongs_to_another(extra: str, never: set[str]) -> None:
    named = {re.match(r"[A-Za-z0-9-]+", line).group() for line in PROJECT["optional-dependencies"][extra]}  # type: ignore[union-attr]
    assert packages_in(extra) >= named
    assert packages_in(extra) & never == set()


@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "requirements").glob("*.txt")))
def test_every_locked_package_has_a_version_and_a_hash(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text().strip()
    for block in re.split(r"\n(?=[A-Za-z0-9])", text):
        assert re.match(r"[A-Za-z0-9._-]+(\[[a-z,]+\])?==\S+", block), block
        assert "--hash=sha256:" in block, block
        assert "://" not in block, block


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterable[zipfile.ZipFile]:
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--installer=uv", f"--outdir={target}", str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = target.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


def test_the_wheel_holds_the_four_packages_whole_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    packed = {name for name in wheel.namelist() if not name.startswith(f"cotenant-{cotenant.__version__}.dist-info/")}
    tracked = set()
    for package, folder in PACKAGES.items():
        listed = subprocess.run(["git", "ls-files", "."], cwd=folder, capture_output=True, text=True, check=True)
        tracked |= {f"{package}/{line}" for line in listed.stdout.splitlines()}
    # The Go module lies beside the package; a link in the package brings it into the wheel.
    link = "cotenant_local/programs/source"
    assert link in tracked
    listed = subprocess.run(
        ["git", "ls-files", "."], cwd=ROOT / "local" / "controlplane", capture_output=True, text=True, check=True
    )
    tracked = tracked - {link} | {f"{link}/{line}" for line in listed.stdout.splitlines()}
    assert packed == tracked


def test_the_wheel_says_who_it_is(wheel: zipfile.ZipFile) -> None:
    folder = f"cotenant-{cotenant.__version__}.dist-info"
    metadata = wheel.read(f"{folder}/METADATA").decode()
    assert f"\nVersion: {cotenant.__version__}\n" in metadata
    extras = {
        line.removeprefix("Provides-Extra: ") for line in metadata.splitlines() if line.startswith("Provides-Extra")
    }
    assert extras == {"operator", "sdk", "dashboard", "mcp", "agent", "worker", "local", "sweeps"}
    assert f"{folder}/licenses/LICENSE" in wheel.namelist()
    entries = wheel.read(f"{folder}/entry_points.txt").decode()
    assert "cotenant = cotenant.cli.main:main" in entries
    assert "local = cotenant_local.cli.local" in entries


@pytest.mark.parametrize("root", ["operator", "worker", "local"])
def test_a_source_root_is_not_a_package(root: str) -> None:
    """An `__init__.py` in operator would shadow the standard library for every program that starts in the checkout."""
    assert not (ROOT / root / "__init__.py").exists()


def test_the_standard_librarys_operator_wins_in_the_checkout() -> None:
    code = "import operator, collections; print(operator.attrgetter.__module__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "operator"


def test_the_version_is_the_same_wherever_it_is_written() -> None:
    chart = yaml.safe_load((ROOT / "charts" / "cotenant" / "Chart.yaml").read_text())
    (dockerfile,) = re.findall(r"^ARG VERSION=(\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert {PROJECT["version"], cotenant.__version__, chart["version"], chart["appVersion"], dockerfile} == {
        cotenant.__version__
    }


def test_the_dockerfile_has_a_target_for_every_image_of_the_chart() -> None:
    stages = set(re.findall(r"^FROM \S+ AS (\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE))
    templates = "".join(path.read_text() for path in (ROOT / "charts" / "cotenant" / "templates").iterdir())
    images = set(re.findall(r'include "cotenant.image" \(dict "root" \. "component" "(\w+)"\)', templates))
    assert images == {"operator", "agent", "worker"}
    assert images <= stages


def test_every_dependency_says_why_it_is_here() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    section = text[text.index("dependencies = [") : text.index("[project.scripts]")]
    silent = [line.strip() for line in section.splitlines() if re.match(r'\s+"', line) and "#" not in line]
    assert silent == []
