"""Streaming requests that the kubelet proxies: exec, attach, port-forward, over SPDY/3.1 or WebSocket.

kubectl opens a WebSocket to the API server; the API server or the kubelet translates that to SPDY towards the runtime.
Clients of `v4.channel.k8s.io` (the Python client) are passed through as they are.
"""
