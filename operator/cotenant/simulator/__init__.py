"""Runs the operator's own decisions on a virtual clock: weeks of a cluster in seconds.

`scenario` reads which jobs arrive when, `engine` runs it through `ClusterState` and `schedule`, `report` summarises it.
`traces` reads published traces, `workload` puts a trace on a cluster, `comparison` and `chart` show policies side by
side.
"""
