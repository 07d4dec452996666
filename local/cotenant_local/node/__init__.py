"""One node from inside: its init (PID 1 of its namespaces), and the kubelet, kube-proxy and runtime that it starts.

Entered only as programs, `python -m`; nothing of the machine outside the node's namespaces is touched.
"""
