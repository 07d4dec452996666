"""Cotenant: share GPU nodes among tenants on Kubernetes.

Nothing heavy is imported here: the worker and the agent read `cotenant.names` and `cotenant.contract` from the same
wheel without the operator's dependencies.
"""

__version__ = "0.1.0"
