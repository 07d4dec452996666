"""The decision: pure, integer, deterministic. No clock, no I/O, no logging, no Kubernetes. `schedule` in
`scheduling.scheduler` is the heart.

Imports nothing: verbs of the kubectl plugin read `core.model`, and the plugin has no numpy.
"""
