"""The verbs of `cotenant`, and those that kubectl offers."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from cotenant.cli import verbs
from cotenant.cli.main import NOT_OF_THE_PLUGIN, PLUGIN, build_parser, main


def test_the_plugin_offers_what_concerns_a_clusters_users_and_nothing_else() -> None:
    whole, plugin = build_parser().format_help(), build_parser(PLUGIN).format_help()
    offered = (
        "audit",
        "completions",
        "doctor",
        "drain",
        "gpus",
        "hold",
        "nodes",
        "release",
        "validate",
        "simulate",
        "logs",
        "offer",
        "ps",
        "queues",
        "top",
        "whatif",
        "why",
    )
    verbs = (*offered, *sorted(NOT_OF_THE_PLUGIN))
    assert [verb for verb in verbs if re.search(rf"^    {verb}\s", whole, re.M)] == list(verbs)
    assert [verb for verb in verbs if re.search(rf"^    {verb}\s", plugin, re.M)] == list(offered)


WITHOUT_A_CLUSTER = frozenset(
    [
        "agent",
        "completions",
        "crds",
        "demo",
        "hold",
        "local",
        "operator",
        "plugin",
        "quota",
        "release",
        "replay",
        "session",
        "simulate",
        "validate",
        "__complete",
    ]
)
"""Verbs that ask no API server of a kubeconfig by themselves; those below hold, quota, release and session do."""


def leaves(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], set[str]]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from leaves(below, (*path, name))
    yield path, {flag for action in parser._actions for flag in action.option_strings}


def test_every_verb_that_asks_a_cluster_has_the_three_flags_of_kubectl() -> None:
    lacking = [
        " ".join(path)
        for path, flags in leaves(build_parser())
        if path and path[0] != "local" and not (len(path) == 1 and path[0] in WITHOUT_A_CLUSTER)
        if not {"--context", "--kubeconfig", "--namespace"} <= flags
    ]
    assert lacking == []


@pytest.mark.parametrize(
    ("verb", "says"),
    [
        ("statsu", "there is no verb statsu; cotenant --help lists them"),
        ("sumbit", "there is no verb sumbit; did you mean submit? cotenant --help lists them"),
    ],
)
def test_a_verb_that_there_is_not_is_refused_with_the_nearest(
    verb: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([verb, "x"]) == 2
    assert capsys.readouterr().err == f"cotenant: {says}\n"


def test_every_module_that_registers_a_verb_is_found_and_every_verb_is_where_it_is_looked_for() -> None:
    package = importlib.import_module("cotenant.cli")
    places = [one.name for one in pkgutil.walk_packages(package.__path__, "cotenant.cli.")]
    registering = {name for name in places if hasattr(importlib.import_module(name), "register")}
    assert registering == set(verbs.OWN.values())
    for verb in verbs.modules():
        assert {verb} <= {path[0] for path, _ in leaves(build_parser("cotenant", verb)) if path}, verb


def test_a_list_of_verbs_has_those_that_are_slow_and_imports_none_of_their_settings() -> None:
    asked = (
        "import sys; from cotenant.cli.main import build_parser; text = build_parser('cotenant', '-h').format_help()"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{asked}; print('run the operator' in text, 'pydantic' in sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "True False\n"


LISTS = ("audit", "cost", "gpus", "history", "nodes", "offer", "ps", "queues", "quota list", "session list", "sweep")


def test_every_verb_that_lists_can_be_printed_in_each_form_and_watched() -> None:
    flags = {" ".join(path): given for path, given in leaves(build_parser())}
    assert [verb for verb in LISTS if not {"--output", "--watch"} <= flags[verb]] == []


def test_a_verb_of_every_day_begins_without_the_packages_of_the_operator() -> None:
    asked = "import sys; from cotenant.cli.main import build_parser; build_parser('cotenant', 'ps').parse_args(['ps'])"
    heavy = "print(sorted({'numpy', 'pydantic', 'yaml', 'aiohttp', 'kopf', 'jinja2'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", f"{asked}; {heavy}"], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
