"""Verbs that ask the operator: `why`, `whatif`, `offer`, `queues`, `ps`; and `sweep`, which reads what it wrote.

They go to the API server, which knows the person and passes the question on.
"""
