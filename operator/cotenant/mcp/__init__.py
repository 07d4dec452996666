"""Cotenant for agents: the verbs of the Python client as tools of the Model Context Protocol.

It has only the rights of the kubeconfig that it is started with. It reads. Tools that change something exist only if a
person started it with `--allow-writes`; a change is first proposed, and then applied as it was shown.
"""
