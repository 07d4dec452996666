"""One node from inside: its init (PID 1 of its namespaces) and what that starts, kubelet, kube-proxy and runtime.

Entered only as programs, `python -m`; nothing of the machine outside the node's namespaces is touched.
"""
