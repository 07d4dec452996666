"""Verbs of administrators, live and once: who holds what, what is wrong, what is taken out. RBAC decides who may."""

import argparse

from cotenant.cli.administrators import audit, clusters, doctor, drain, gpus, hold, migrate, move, nodes, replay
from cotenant.cli.administrators.top import verb as top


def register(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    for verb in (audit, clusters, doctor, drain, gpus, hold, migrate, move, nodes, replay, top):
        verb.register(verbs)
