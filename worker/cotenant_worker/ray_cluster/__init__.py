"""The job's Ray cluster: one node per pod, one actor per pod, and the driver in rank 0's pod.

The launcher comes in by `processes` only, for nothing else here may be imported by process 1: the rest imports Ray.

In the order of the calls: `processes` (in the launcher) runs the command of `node_command`, which is `node_main`; it
installs `lazy_imports`, replaces parts of Ray (`lean_node`, with `idle_agent` and `worker_main` as stand-ins), waits
for the head (`waits`) and marks its `phases`. In rank 0's pod it then becomes the `driver`, which puts a `pod_actor`
into every pod and runs the conductor over them.
"""
