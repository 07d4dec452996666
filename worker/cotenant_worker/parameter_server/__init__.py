"""Strategy `ParameterServer`: shards in pods of their own, the optimizer's replacement in the ranks, links between
pods.

A server's pod runs neither code of the tenant nor Ray. Only `shards` imports numpy; the rest runs in PID 1.
"""
