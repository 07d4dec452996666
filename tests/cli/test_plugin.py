"""The plugin is one file that runs with Python alone, and the manifest is of the archive beside it."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
from pathlib import Path

import grimp
import pytest
import yaml

from cotenant.cli import main, plugin

BROUGHT = {"cotenant", "yaml", "python_socks"}


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    assert main.main(["plugin", "--package", str(folder)]) == 0
    return folder


@pytest.mark.parametrize(
    ("words", "code", "printed"),
    [
        (["--version"], 0, "cotenant"),
        (["why", "a", "--kubeconfig", "there-is-none"], 2, "there is no there-is-none"),
        (["__complete", "who"], 0, ":4"),
        (["logs", "a", "--kubeconfig", "there-is-none"], 2, "there is no there-is-none"),
        (["capsule", "a", "--kubeconfig", "there-is-none"], 2, "there is no there-is-none"),
        (["whatif", "-f", "there-is-none"], 1, "there is no such file"),
        (["simulate", "-f", "-"], 2, "without: kubectl cotenant whatif"),
        (["replay", "-"], 2, "without: kubectl exec -i -n cotenant-system deploy/cotenant-operator"),
    ],
)
def test_it_runs_without_any_package(packed: Path, words: list[str], code: int, printed: str) -> None:
    command = [sys.executable, "-I", "-S", str(packed / plugin.PROGRAM), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, printed in done.stdout + done.stderr) == (code, True), done


def test_an_old_python_starts_it_with_a_newer_one_or_says_which_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[tuple[str, list[str]]] = []

    def missing(name: str, words: list[str]) -> None:
        tried.append((name, words))
        raise FileNotFoundError

    monkeypatch.setattr("os.execvp", missing)
    monkeypatch.setattr("sys.argv", ["/usr/bin/kubectl-cotenant", "ps"])
    monkeypatch.setattr("sys.version_info", (3, 10, 12))
    with pytest.raises(SystemExit, match=r"needs Python 3\.11 or newer\. python3 is "):
        exec(plugin.MAIN, {})  # noqa: S102 - what the file runs first
    assert (tried[0], tried[-1]) == (
        ("python3.20", ["python3.20", "/usr/bin/kubectl-cotenant", "ps"]),
        ("python3.11", ["python3.11", "/usr/bin/kubectl-cotenant", "ps"]),
    )


@pytest.mark.parametrize(
    ("verb", "manifest", "said"),
    [
        ("whatif", "kind: [TrainingJob", (1, "job.yaml")),
        ("validate", "kind: TrainingJob", (2, "without: kubectl apply --dry-run=server")),
    ],
)
def test_it_reads_manifests_with_what_it_carries(
    packed: Path, tmp_path: Path, verb: str, manifest: str, said: tuple[int, str]
) -> None:
    code, printed = said
    (tmp_path / "job.yaml").write_text(manifest)
    command = [sys.executable, "-I", "-S", str(packed / plugin.PROGRAM), verb, "-f", str(tmp_path / "job.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, printed in done.stderr, "Traceback" in done.stderr) == (code, True, False), done


def test_krew_finds_the_program_in_the_archive_that_the_manifest_is_of(packed: Path) -> None:
    archive = packed / plugin.ARCHIVE
    (platform,) = yaml.safe_load((packed / plugin.MANIFEST).read_text())["spec"]["platforms"]
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    with tarfile.open(archive) as opened:
        (member,) = opened.getmembers()
    assert (member.name, member.mode) == (platform["bin"], 0o755)
    assert platform["uri"].endswith(plugin.ARCHIVE)


def test_the_same_sources_make_the_same_bytes(packed: Path) -> None:
    program = plugin.zipapp()
    assert program == (packed / plugin.PROGRAM).read_bytes()
    assert plugin.archived(program) == (packed / plugin.ARCHIVE).read_bytes()


def test_manual_pages_lie_beside_it(packed: Path) -> None:
    assert ".SH SYNOPSIS" in (packed / plugin.MANUAL / "cotenant-why.1").read_text()


def test_no_verb_of_the_plugin_needs_a_package_but_those_that_say_what_does_without() -> None:
    graph = grimp.build_graph(
        "cotenant", include_external_packages=True, exclude_type_checking_imports=True, cache_dir=None
    )
    for imported in graph.find_modules_directly_imported_by("cotenant"):  # those of `import cotenant`, at first use
        graph.remove_import(importer="cotenant", imported=imported)
    for module in [one for one in graph.modules if "." in one]:  # importing a module runs its packages first
        graph.add_import(importer=module, imported=module.rpartition(".")[0])
    verbs = {f"cotenant.cli.{name}" for name in ("tenants", "queries", "administrators", "terminal", "reference")}
    modules = {"cotenant.cli.main", "cotenant.cli.tenants.logs", "cotenant.cli.documents"}.union(
        *(graph.find_descendants(verb) for verb in verbs)
    )
    modules.remove("cotenant.cli.administrators.replay")
    packages = {name for name in graph.modules if graph.is_module_squashed(name)} - BROUGHT
    foreign = {name for name in packages if name not in sys.stdlib_module_names}
    needs = {(module, name) for module in modules for name in foreign if graph.chain_exists(module, name)}
    assert needs == set()
    assert graph.chain_exists("cotenant.cli.administrators.replay", "numpy")
