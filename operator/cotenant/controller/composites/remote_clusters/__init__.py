"""Jobs on other clusters: they are handed over once, mirrored back, and fetched back.

`steps` and `handover` decide, as functions. `keeper` carries out for one RemoteCluster, in a task of its own.
`registry` keeps one keeper for each RemoteCluster.

A job counts as on the other cluster from the write of `status.cluster` here until that field is cleared. The write
comes before anything is made there. The field is cleared only when the job there was seen to be gone. In between,
nothing of the job starts here.

The job there is made suspended. The write that releases it fails if the job there has changed or is gone, so a late
request starts nothing.
"""
