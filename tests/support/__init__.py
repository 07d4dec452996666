"""Stand-ins that several tests and benchmarks share: pods without Kubernetes, nodes without kubelets.

Everything under `tests/` and `bench/` may come in; no test of its own and no assertion about the product lives here.
"""
