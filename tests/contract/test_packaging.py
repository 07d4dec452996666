"""Two wheels and the extras: what is in each wheel, what each extra can import, that versions and names agree."""

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
LOCAL = tomllib.loads((ROOT / "local" / "pyproject.toml").read_text())["project"]


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
NOT_OF_THE_CLIENT = (
    "cotenant.controller", "cotenant.dashboard", "cotenant.mcp", "cotenant.serving", "tests.support.clusters",
)  # fmt: skip
EXTRAS = {
    "client": modules_of("cotenant", *NOT_OF_THE_CLIENT),
    "operator": modules_of("cotenant", "cotenant.mcp.tools") + LOCAL_VERBS,
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
        "cotenant.controller.informers.feed.kopf_feed",
        "cotenant.names",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert json.loads(done.stdout) == {
        "cotenant.controller.informers.feed.kopf_feed": "ModuleNotFoundError: No module named 'kopf'"
    }


def needed_by(extra: str) -> list[str]:
    """Requirements of an extra; those of the distribution itself are the client's."""
    return PROJECT["dependencies"] if extra == "client" else PROJECT["optional-dependencies"][extra]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("extra", "never"),
    [
        ("client", {"kopf", "kubernetes", "ray", "torch", "orjson", "jinja2", "grpcio", "nvidia-ml-py", "optuna"}),
        ("operator", {"ray", "torch", "nvidia-ml-py", "scikit-learn", "grpcio"}),
        ("agent", {"ray", "torch", "kopf", "scikit-learn", "grpcio-tools"}),
        ("worker", {"kopf", "kubernetes", "nvidia-ml-py"}),
    ],
)
def test_an_extra_does_not_bring_what_belongs_to_another(extra: str, never: set[str]) -> None:
    named = {re.match(r"[A-Za-z0-9-]+", line).group() for line in needed_by(extra)}  # type: ignore[union-attr]
    assert packages_in(extra) >= named
    assert packages_in(extra) & never == set()


@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "requirements").glob("*.txt")))
def test_every_locked_package_has_a_version_and_a_hash(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text().strip()
    for block in re.split(r"\n(?=[A-Za-z0-9])", text):
        assert re.match(r"[A-Za-z0-9._-]+(\[[a-z,]+\])?==\S+", block), block
        assert "--hash=sha256:" in block, block
        assert "://" not in block, block


def built(project: Path, target: Path) -> zipfile.ZipFile:
    command = [sys.executable, "-m", "build", "--wheel", "--installer=uv", f"--outdir={target}", str(project)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = target.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterable[zipfile.ZipFile]:
    with built(ROOT, tmp_path_factory.mktemp("wheel")) as archive:
        yield archive


@pytest.fixture(scope="module")
def local_wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterable[zipfile.ZipFile]:
    with built(ROOT / "local", tmp_path_factory.mktemp("local")) as archive:
        yield archive


def packed(wheel: zipfile.ZipFile) -> set[str]:
    return {name for name in wheel.namelist() if ".dist-info/" not in name}


def tracked(folder: Path, as_folder: str) -> set[str]:
    listed = subprocess.run(["git", "ls-files", "."], cwd=folder, capture_output=True, text=True, check=True)
    return {f"{as_folder}/{line}" for line in listed.stdout.splitlines()}


def test_the_wheel_holds_three_packages_whole_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    ours = PACKAGES.keys() - {"cotenant_local"}
    assert packed(wheel) == set().union(*(tracked(PACKAGES[package], package) for package in ours))


def test_the_wheel_of_the_local_cluster_holds_its_package_and_the_go_module(local_wheel: zipfile.ZipFile) -> None:
    """The Go module lies beside the package; a link in the package brings it into the wheel."""
    link = "cotenant_local/programs/source"
    python = tracked(PACKAGES["cotenant_local"], "cotenant_local")
    assert link in python
    assert packed(local_wheel) == python - {link} | tracked(ROOT / "local" / "controlplane", link)


def test_the_wheel_of_the_local_cluster_says_who_it_is(local_wheel: zipfile.ZipFile) -> None:
    folder = f"cotenant_local-{cotenant.__version__}.dist-info"
    metadata = local_wheel.read(f"{folder}/METADATA").decode()
    assert f"\nRequires-Dist: cotenant=={cotenant.__version__}\n" in metadata
    assert f"{folder}/licenses/LICENSE" in local_wheel.namelist()
    assert "local = cotenant_local.cli.local" in local_wheel.read(f"{folder}/entry_points.txt").decode()


def test_the_wheel_says_who_it_is(wheel: zipfile.ZipFile) -> None:
    folder = f"cotenant-{cotenant.__version__}.dist-info"
    metadata = wheel.read(f"{folder}/METADATA").decode()
    assert f"\nVersion: {cotenant.__version__}\n" in metadata
    extras = {
        line.removeprefix("Provides-Extra: ") for line in metadata.splitlines() if line.startswith("Provides-Extra")
    }
    assert extras == {"operator", "dashboard", "mcp", "agent", "worker", "local", "sweeps"}
    assert f"{folder}/licenses/LICENSE" in wheel.namelist()
    entries = wheel.read(f"{folder}/entry_points.txt").decode()
    assert "cotenant = cotenant.cli.main:main" in entries
    assert "cotenant_local" not in entries
    assert f"\nRequires-Dist: cotenant-local=={cotenant.__version__}; extra == 'local'\n" in metadata


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
    assert {
        PROJECT["version"],
        LOCAL["version"],
        cotenant.__version__,
        chart["version"],
        chart["appVersion"],
        dockerfile,
    } == {cotenant.__version__}


def test_the_dockerfile_has_a_target_for_every_image_of_the_chart() -> None:
    stages = set(re.findall(r"^FROM \S+ AS (\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE))
    templates = "".join(path.read_text() for path in (ROOT / "charts" / "cotenant" / "templates").iterdir())
    images = set(re.findall(r'include "cotenant.image" \(dict "root" \. "component" "(\w+)"\)', templates))
    assert images == {"operator", "agent", "worker"}
    assert images <= stages


def test_the_user_of_the_images_has_a_name() -> None:
    text = (ROOT / "Dockerfile").read_text()
    users = set(re.findall(r"^USER (\d+):\d+$", text, re.MULTILINE)) - {"0"}
    assert set(re.findall(r"\w+:x:(\d+):\d+:\S+ >> /etc/passwd", text)) == users


def test_every_dependency_says_why_it_is_here() -> None:
    for project, end in ((ROOT, "[project.scripts]"), (ROOT / "local", "[project.entry-points")):
        text = (project / "pyproject.toml").read_text()
        section = text[text.index("dependencies = [") : text.index(end)]
        silent = [line.strip() for line in section.splitlines() if re.match(r'\s+"', line) and "#" not in line]
        assert silent == []
