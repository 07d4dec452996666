"""Estimates: when waiting jobs start, as a distribution, from simulated futures (plays) of the production core.

`remaining` draws run times and `arrivals` jobs that may come. `play` simulates one future; `turns` has its cycles, and
`played_cluster` its jobs. `estimates` makes quantiles of many plays, and corrects them by past errors. Open to the
controller, the simulator and benchmarks. Never part of a decision.
"""
