"""`make demo`: two tenants, three jobs, two GPUs, one real Kubernetes on this machine.

`scenes` turns API documents into what is shown, `view` draws it, `watch` reads the cluster, `story` runs it from
start to end.
"""
