"""Jobs on other clusters: handed over once, mirrored back, fetched back. `steps` and `handover` decide, as functions;
`keeper` carries out for one RemoteCluster, in a task of its own; `registry` has one for each.

A job is on the other cluster from the write of `status.cluster` here until that is cleared. The write comes before
anything is made there, and it is cleared only when the job there was seen to be gone. Meanwhile nothing of it starts
here. The job there is made suspended, and released by a write that fails if it has changed or is gone: a request that
arrives late starts nothing.
"""
