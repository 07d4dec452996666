"""The job's Ray cluster: one node per pod, one actor per pod, and the driver in rank 0's pod.

The launcher imports `processes` only, because all other modules import Ray. In the order of the calls: `processes` (in
the launcher) runs the command of `node_command`, which is `node_main`. That installs `lazy_imports`, replaces parts of
Ray (`lean_node`, with `idle_agent` and `worker_main` as replacements), waits for the head (`waits`) and marks its
`phases`. In rank 0's pod it then becomes the `driver`, which starts a `pod_actor` in every pod and runs the conductor
over them.
"""
