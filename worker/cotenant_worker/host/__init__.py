"""The machine as a pod sees it: child processes, the container's limits, paths. Stdlib only, for process 1.

All rooms may import it. It does not know ranks, Ray or the conductor.
"""
