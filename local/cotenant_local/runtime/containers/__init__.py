"""Pods and containers of one node: their records, specs, images, exec sessions and usage. One owner, one event loop.

What cannot be honoured is refused here, before anything has started; namespaces and mounts are made in `inside`.
"""
