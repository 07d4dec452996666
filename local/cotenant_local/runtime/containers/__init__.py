"""Pods and containers of one node: their records, specs, images, exec sessions and usage. One owner, one event loop.

Requests that cannot be honoured are refused here, before anything starts. `inside` makes namespaces and mounts.
"""
