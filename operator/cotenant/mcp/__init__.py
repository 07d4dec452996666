"""Cotenant for agents: the verbs of the Python client as tools of the Model Context Protocol.

It has the rights of the kubeconfig that it is started with and no others. It reads; what changes anything exists only
where a person started it with `--allow-writes`, and is then proposed first and applied as it was shown.
"""
