"""`make demo`: two tenants, three jobs, two GPUs, one real Kubernetes on this machine.

`scenes` turns API documents into values, `view` draws them, `cluster_reader` fetches them, `story` runs it all from
start to end. Nothing imports this package but the verb.
"""
