"""The same core on a virtual clock: what a cluster would do with its jobs, in seconds instead of weeks.

`scenario` reads what comes when, `engine` plays it through `ClusterState` and `schedule`, `report` sums it up. `traces`
reads what was published, `workload` puts it on a cluster, `comparison` and `chart` show policies side by side.
"""
