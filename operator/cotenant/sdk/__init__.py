"""Cotenant from Python: describe a job, ask what would happen to it, submit it, follow it.

Users import it as `cotenant`. It has no rights of its own: it asks the API server as its caller. It decides nothing,
and computes nothing that the operator computes.
"""
