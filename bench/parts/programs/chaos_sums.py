"""The sum that `chaos_program` comes to, and the ways in which its ranks add up.

A file of its own, so that torch is loaded only where it is used: the worker imports ahead what the program's text
imports.
"""

from __future__ import annotations

from collections.abc import Callable

from cotenant_worker import ParameterServer, all_reduce


def summand(step: int) -> float:
    return float(step * step % 11)


def right(steps: int) -> float:
    """The sum that a job of so many steps must come to."""
    return sum(summand(step) for step in range(1, steps + 1))


def sum_up(kind: str, value: float) -> Callable[[float], float]:
    """A function that adds the mean over all ranks to the sum so far, at first `value`, and returns the sum.

    `kind`: torch, own or servers.
    """
    if kind == "servers":
        return _push(value)
    if kind == "torch":
        import torch.distributed as dist

        dist.init_process_group("gloo")

    def reduce(own: float) -> float:
        nonlocal value
        value += all_reduce(own, "mean")
        return value

    return reduce


def _push(value: float) -> Callable[[float], float]:
    import torch

    held = torch.nn.Parameter(torch.tensor([value]))
    servers = ParameterServer([held], lr=1.0)

    def push(own: float) -> float:
        held.grad = torch.tensor([-own])
        servers.step()
        return float(held.detach()[0])

    return push
