"""The future, played: when waiting jobs start, as a distribution, by the production core on a virtual clock.

`remaining` draws run times, `arrivals` supposes who comes, `play` plays one future (`turns` has its cycles,
`played_cluster` who holds what), `estimates` makes quantiles of many and learns how wrong they were. Open to the
controller, the simulator and benchmarks. Never part of a decision.
"""
