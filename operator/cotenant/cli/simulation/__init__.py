"""`cotenant simulate`: jobs on a virtual clock, of documents or of a trace, with an installation's settings."""

import argparse

from cotenant.cli.simulation import simulate


def register(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    simulate.register(verbs)
