"""Verbs that ask the operator: `why`, `whatif`, `offer`, `queues`, `ps`; and `sweep`, which reads what it wrote.

They go to the API server, which knows the person and passes the question on.
"""

import argparse

from cotenant.cli.queries import offer, ps, queues, sweep, whatif, why


def register(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    for verb in (offer, ps, queues, sweep, whatif, why):
        verb.register(verbs)
