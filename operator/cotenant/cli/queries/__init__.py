"""Verbs that ask the operator: `why`, `whatif`, `offer`, `queues`, `ps`; and `sweep`, which reads a sweep's status.

They go through the API server, which authenticates the person and passes the question on.
"""
