"""What is read off the parser: completions of shells, the page of commands, manual pages."""

import argparse

from cotenant.cli.reference import completions


def register(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    completions.register(verbs)
