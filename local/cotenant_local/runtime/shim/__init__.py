"""The runtime's connections to its processes: to the zygote, which forks them, and to the shim of each container.

The protocols live here, on this side; nothing of it runs inside a container.
"""
