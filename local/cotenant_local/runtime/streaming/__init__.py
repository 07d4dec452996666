"""What the kubelet proxies to the runtime: exec, attach, port-forward over SPDY/3.1, and WebSocket for some clients.

kubectl speaks WebSocket to the API server; the API server or the kubelet translates that to SPDY towards the runtime.
Clients that speak `v4.channel.k8s.io` (the Python client) are passed through as they are.
"""
