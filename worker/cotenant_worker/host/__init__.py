"""The machine as a pod sees it: child processes, the container's limits, paths. Stdlib only, for process 1.

All rooms come in. Nothing here knows ranks, Ray or the conductor.
"""
