"""The verbs of `cotenant`, and those that kubectl offers."""

from __future__ import annotations

import re

from cotenant.cli.main import NOT_OF_THE_PLUGIN, PLUGIN, build_parser


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
