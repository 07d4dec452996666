"""Verbs of administrators, live and once: who holds what, what is wrong, what is taken out. RBAC decides who may."""

import argparse

from cotenant.cli.administrators import audit, doctor, drain, gpus, hold, migrate, move, nodes, replay, top


def register(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    for verb in (audit, doctor, drain, gpus, hold, migrate, move, nodes, replay, top):
        verb.register(verbs)
