"""Verbs of tenants: `submit`, `stop`, `resume`, `retry`, `attach`, `port-forward`, `drill`, `quota`, `session`, and
of runs `history`, `eff`, `advise`, `cost`, `showback`.

They read and write through the API server, with the rights of whoever types them. `jobs` is what they share.
"""

import argparse

from cotenant.cli.tenants import (
    advise,
    cost,
    drill,
    eff,
    history,
    quota,
    resume,
    retry,
    showback,
    stop,
    submit,
)
from cotenant.cli.tenants.access import attach, port_forward, session


def register(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    for verb in (
        advise,
        attach,
        session,
        port_forward,
        cost,
        drill,
        eff,
        history,
        quota,
        resume,
        retry,
        showback,
        stop,
        submit,
    ):
        verb.register(verbs)
