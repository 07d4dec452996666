"""Runs the operator's own decisions on a virtual clock: weeks of a cluster in seconds.

`scenario` reads which jobs arrive when. `engine` runs it through `ClusterState` and the decisions of
`core.scheduling`. `report` summarises it. `traces` reads published traces, `workload` puts a trace on a cluster,
`comparison` and `chart` show policies side by side.
"""
