"""Deterministic simulation of the whole control plane: two replicas of the operator, nodes and people on one virtual
clock and an API server in memory, with faults drawn from a seed. `python -m tests.support.simulation` plays many seeds.
"""
