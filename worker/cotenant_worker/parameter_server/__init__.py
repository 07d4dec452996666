"""Strategy `ParameterServer`: shards in pods of their own, the optimizer's stand-in in the ranks, links between pods.

No code of the tenant runs in a server's pod, nor Ray. Only `shards` imports numpy; the rest is PID 1's.
"""
