"""The verbs of `cotenant`, and those that kubectl offers."""

from __future__ import annotations

from cotenant.cli.main import NOT_OF_THE_PLUGIN, PLUGIN, build_parser


def test_the_plugin_offers_what_concerns_a_clusters_users_and_nothing_else() -> None:
    whole, plugin = build_parser().format_help(), build_parser(PLUGIN).format_help()
    offered = ("validate", "simulate", "logs", "offer", "ps", "queues", "whatif", "why")
    verbs = (*offered, *sorted(NOT_OF_THE_PLUGIN))
    assert [verb for verb in verbs if f"    {verb} " in whole] == list(verbs)
    assert [verb for verb in verbs if f"    {verb} " in plugin] == list(offered)
